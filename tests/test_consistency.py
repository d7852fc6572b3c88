"""Results with one altered raw number and all else computed again: most are refused, by a claim or by their type."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, leaves, put, verified
from sampled_parameters import IN_PARTS, of_part
from small_run import REAL_RUNS, Run, golden, rebuilt

from hpcai.errors import HpcaiError
from hpcai.record.loading import result_of
from hpcai.record.record import fields
from hpcai.record.training import OperatorSeconds
from hpcai.verification import verify

Json = dict[str, Any]

# Numbers that can be altered to some extent if fingerprint and digest are computed again: no other number
# depends on them.
SECONDS = {
    "start_up", "set_up", "residuals", "warm_up", "training", "data_wait", "validation", "ensemble",
    "exposed_communication", "profile", "replay",
}  # fmt: skip
UNPROVEN = {
    "raw.delivered.samples", "raw.delivered.positions",  # as many as were drawn; 0 would be refused
    *(f"raw.preparation.processor.{name}" for name in ("family", "model", "units", "cycles")),
    "raw.replay.outside_share", "raw.checkpoints.pauses",  # only printed
    "raw.evaluation_deviation",  # these up to limits
    *(f"raw.preparation.network_check.{part}.value" for part in ("weights", "outputs")),
    "raw.preparation.warmup_steps", "raw.replay.deviation.value", "raw.replay.lost.value",
    "raw.preparation.residuals.scaled.value", "raw.preparation.residuals.elementwise.value",
    "raw.curve.seconds", "raw.curve.loss", "raw.curve.correct", "raw.ensemble.correct", "raw.ensemble.agreeing_pairs",
    "raw.ensemble.bag_correct", "raw.members.best", "raw.models.reached_seconds_sum", "raw.models.reached_seconds_max",
    "raw.models.reached_epochs_sum", "raw.models.reached_epochs_max", "raw.step_seconds.mean",
    "raw.step_seconds.median", "raw.step_seconds.p95", "raw.busy_seconds.min", "raw.busy_seconds.mean",
    "raw.busy_seconds.max", "raw.busy_seconds.slowest_rank", "raw.waiting_seconds.data",
    *(f"raw.ensemble.recount.{name}" for name in ("correct", "agreeing_pairs", "bag_evaluated", "bag_correct")),
    *(f"raw.ensemble.recount.members_{name}" for name in ("sum", "min", "max")),  # their file has them
    "raw.energy.seconds",  # of a whole node at least 2 s would make scores
    "raw.loading.load_seconds", "raw.loading.wait_seconds",
    "raw.waiting_seconds.communication", "raw.execution.late_graphs", "raw.execution.buckets", "memory.peak_bytes",
    "memory.baseline_bytes", "memory.planned_bytes", *(f"raw.phases.{phase}" for phase in SECONDS),
    *(f"raw.operator_seconds.{field.name}" for field in fields(OperatorSeconds)),
}  # fmt: skip


def measured_numbers(result: Json) -> Iterator[tuple[Where, Any]]:
    """Every measured number of a test, with its path; telemetry has tests of its own."""
    for index, test in enumerate(result["tests"]):
        for part in ("raw", "memory"):
            for path, value in leaves(test[part], ("tests", index, part)):
                if type(value) in (int, float):
                    yield path, value


def name_of(path: Where) -> str:
    return ".".join(key for key in path[2:] if isinstance(key, str))


def passes(result: Json, folder: Path) -> bool:
    """Whether a result, all derived values computed again, is PASSED and verified."""
    try:
        made = rebuilt(result)
    except (HpcaiError, ArithmeticError, ValueError, TypeError):
        return False
    return made["summary"]["failed"] == 0 and not verified(made, folder)


@IN_PARTS
def test_most_numbers_cannot_be_altered_alone(tmp_path: Path, part: int) -> None:
    for path, value in of_part(measured_numbers(golden()), part):
        for other in (value + 1, value - 1, value * 2 + 1) if name_of(path) not in UNPROVEN else ():
            assert not passes(put(golden(), path, other), tmp_path), f"{path}: {value} -> {other}"


@pytest.mark.parametrize("change", [4, -4, 1000])
def test_quality_of_a_single_model_cannot_be_altered_alone(tmp_path: Path, change: int) -> None:
    path = ("tests", 1, "raw", "ensemble", "correct")
    value = golden()["tests"][1]["raw"]["ensemble"]["correct"]
    assert passes(put(golden(), path, value), tmp_path)
    assert not passes(put(golden(), path, value + change), tmp_path)


@pytest.mark.exhaustive
@REAL_RUNS
def test_real_tests_violate_no_claim(run: Callable[[], Run]) -> None:
    """Bags of Poisson draws, mapping by column, a last batch that is dropped, epochs without validation."""
    result = run().result
    assert any(test["verdict"] == "PASSED" for test in result["tests"])
    assert [*verify.contradictions(result_of(result))] == []


def test_a_failed_test_may_contradict_itself(tmp_path: Path) -> None:
    result = golden()
    result["tests"][0]["raw"]["preparation"]["wrong_sums"] = 3
    result["tests"][0]["raw"]["work"] |= {"validation_counted": 7999, "validation_miscounted": 1}
    result = rebuilt(result)
    assert result["tests"][0]["verdict"] == "FAILED"
    assert verified(result, tmp_path) == []


def test_a_contradiction_fails_the_test(tmp_path: Path) -> None:
    """The run checks its own claims; so a result computed again cannot be PASSED."""
    result = golden()
    result["tests"][1]["raw"]["work"]["steps"] = 9
    made = rebuilt(result)
    assert made["tests"][1]["verdict"] == "FAILED" and made["summary"]["failed"] == 1
    assert any("tests[1]" in found for found in verified({**golden(), "tests": result["tests"]}, tmp_path))
