"""What raw measurements owe each other: a forger makes everything else anew, and is still caught by most of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alterations import Where, leaves, put, verified
from shares import IN_TURNS, of_turn
from small_run import cases_of, failing_run, golden, judged, live_run

from hpcai.errors import HpcaiError
from hpcai.report import consistency
from hpcai.train.operators import CLASSES

Json = dict[str, Any]
Changes = dict[str, Any]

# What may be altered, to some extent, by one who makes the fingerprint and the digest anew: no other number says it.
UNPROVEN = {
    "warmup_steps", "audit.deviation.value", "audit.lost.value", "phases.audit",
    "residuals.scaled.value", "residuals.elementwise.value", "curve.seconds", "curve.loss",
    "curve.correct", "correct", "agreeing_pairs", "bag_correct", "member_correct_best", "reached_seconds_sum",
    "reached_seconds_max", "reached_epochs_sum", "reached_epochs_max", "phases.start-up", "phases.set-up",
    "phases.residuals", "phases.warm-up", "phases.training", "phases.data wait", "phases.validation", "phases.ensemble",
    "phases.exposed communication", "phases.profile", "step_seconds.mean", "step_seconds.median", "step_seconds.p95",
    "busy_seconds.min", "busy_seconds.mean", "busy_seconds.max", "busy_seconds.slowest_rank", "waiting_seconds.data",
    "waiting_seconds.communication", "execution.late_graphs", "execution.buckets", "memory.peak_bytes",
    "memory.baseline_bytes", "memory.planned_bytes", *(f"operation_seconds.{kind}" for kind in CLASSES),
}  # fmt: skip


def raw_numbers() -> Iterator[tuple[Where, Any]]:
    for index, test in enumerate(golden()["tests"]):
        for path, value in leaves(test["raw"], ("tests", index, "raw")):
            if type(value) in (int, float):
                yield path, value


def passes(path: Where, value: Any, tmp_path: Path) -> bool:
    """Whether the stored result, one number altered and all that follows from it made anew, is PASSED and verified."""
    try:
        result = judged(put(golden(), path, value))
    except (HpcaiError, ArithmeticError, ValueError, TypeError):
        return False
    return result["summary"]["failed"] == 0 and not verified(result, tmp_path)


@IN_TURNS
def test_most_numbers_cannot_be_altered_alone(tmp_path: Path, turn: int) -> None:
    for path, value in of_turn(raw_numbers(), turn):
        name = ".".join(key for key in path[3:] if isinstance(key, str))
        for other in (value + 1, value - 1, value * 2 + 1) if name not in UNPROVEN else ():
            assert not passes(path, other, tmp_path), f"{path}: {value} -> {other}"


def test_training_time_cannot_be_shortened_alone(tmp_path: Path) -> None:
    for index in (0, 1):
        path = ("tests", index, "raw", "phases", "training")
        seconds = golden()["tests"][index]["raw"]["phases"]["training"]
        assert passes(path, seconds, tmp_path)
        assert not passes(path, 0.98 * seconds, tmp_path)


@pytest.mark.parametrize("change", [4, -4, 1000])
def test_quality_of_a_single_model_cannot_be_altered_alone(tmp_path: Path, change: int) -> None:
    path = ("tests", 1, "raw", "correct")
    assert not passes(path, golden()["tests"][1]["raw"]["correct"] + change, tmp_path)


def broken(index: int, **raw: Any) -> list[str]:
    """The claims that a test of the stored result breaks with other raw measurements."""
    result = golden()
    test = result["tests"][index]["raw"]
    for name, value in raw.items():
        test[name] = {**test[name], **value} if isinstance(value, dict) else value
    return list(consistency.contradictions(cases_of(result)[index], test))


def curve(index: int, entry: int, **values: Any) -> Json:
    """Another validation curve: one entry has other values."""
    entries = golden()["tests"][index]["raw"]["curve"]
    entries[entry] |= values
    return {"curve": entries}


def test_stored_tests_break_no_claim() -> None:
    assert broken(0) == broken(1) == []


@pytest.mark.parametrize(
    ("claim", "index", "raw"),
    [
        ("counts >= 0", 0, {"wrong_sums": -1}),
        ("residuals >= 0", 0, {"residuals": {"scaled": {"value": -0.1, "where": ""}}}),
        ("training_samples = SAMPLES", 0, {"dataset": {"training_samples": 201}}),
        ("audit: values >= 0", 0, {"audit": {"deviation": {"value": -0.1, "where": ""}}}),
        ("audit: one step in each epoch of each model", 0, {"audit": {"steps": 3}}),
        ("target: TARGET, or the dataset's own", 0, {"target": 0.04}),
        ("backend is none if, and only if, DEGREE = 1", 0, {"backend": "gloo"}),
        ("backend is none if, and only if, DEGREE = 1", 1, {"backend": "none"}),
        ("samples + skipped_samples = EPOCHS x the shards", 0, {"samples": 801}),
        ("steps = EPOCHS x the steps of all models", 0, {"steps": 27}),
        ("model_steps_min, of the models", 0, {"model_steps_min": 13}),
        ("model_steps_max, of the models", 0, {"model_steps_max": 15}),
        ("steps_per_epoch of the first model", 0, {"steps_per_epoch": 8}),
        ("sharding of the first model", 1, {"sharding": "by turns"}),
        ("curve: epochs that EVALUATE asks for", 0, curve(0, 0, epoch=3)),
        ("curve: counted = validation_samples", 0, curve(0, 1, counted=1999)),
        ("curve: the fingerprint of all samples", 0, curve(0, 1, fingerprint=1)),
        ("curve: no loss is missing", 0, curve(0, 1, loss=None)),
        ("converted: products in 16 bits only", 0, {"memory": {"converted": True}}),
        ("curve: a quality from 0 to 1", 0, curve(0, 0, correct=2001)),
        ("curve: losses finite", 0, curve(0, 0, loss=-1.0)),
        ("curve: time goes on", 0, curve(0, 0, seconds=1e6)),
        ("validation_passes = GROUPS x evaluated epochs", 0, {"validation_passes": 5}),
        ("validation_counted = passes x samples", 0, {"validation_counted": 8001}),
        ("correct <= validation_samples", 0, {"correct": 2001}),
        ("agreeing_pairs <= pairs of models - their spread", 0, {"agreeing_pairs": 1999}),
        ("member_correct_min <= the first model's <= max", 0, curve(0, 1, correct=1)),
        ("member_correct_best >= max", 0, {"member_correct_best": 334}),
        ("member_correct_best <= validation_samples", 0, {"member_correct_best": 2001}),
        ("member_correct_sum: between min and max", 0, {"member_correct_sum": 1000}),
        ("one model: its best is the curve's", 1, {"member_correct_best": 400}),
        ("one model: the ensemble is the model", 1, {"correct": 400}),
        ("reached_models <= GROUPS", 0, {"reached_models": 3}),
        ("reached_models > 0 if the best reached the target", 0, {"reached_models": 0}),
        ("reached_epochs_max was evaluated", 0, {"reached_epochs_max": 3}),
        ("reached: max <= sum <= models x max", 0, {"reached_epochs_sum": 5}),
        ("reached: the first model's <= max", 0, {"reached_seconds_max": 0.001}),
        ("one model: reached when the curve says", 1, {"reached_epochs_max": 2}),
        ("reached_seconds_max <= training + validation", 0, {"reached_seconds_max": 1e6}),
        ("bag_judged: what the samplers left out", 0, {"bag_judged": 119}),
        ("bag_correct <= bag_judged", 0, {"bag_correct": 119}),
        ("phases >= 0", 0, {"phases": {"ensemble": -1.0}}),
        ("phase training > 0", 0, {"phases": {"training": 0.0}}),
        ("phase data wait <= training", 0, {"phases": {"data wait": 100.0}}),
        ("phase start-up is the first test's", 1, {"phases": {"start-up": 5.0}}),
        ("phase start-up >= what it includes", 0, {"phases": {"start-up": 0.1}}),
        ("the curve ends within training + validation", 0, {"phases": {"validation": 0.1}}),
        ("one model: the curve ends after training", 1, {"phases": {"training": 1e6}}),
    ],
)
def test_each_claim_can_be_broken(claim: str, index: int, raw: Changes) -> None:
    assert claim in broken(index, **raw)


def test_real_tests_break_no_claim() -> None:
    """Bags of Poisson draws, mapping by column, a last batch that is dropped, epochs without validation."""
    for run in (live_run(), failing_run()):
        tests = zip(cases_of(run.result), run.result["tests"], strict=True)
        found = {
            case.index: list(consistency.contradictions(case, test["raw"])) for case, test in tests if passed(test)
        }
        assert found and not any(found.values())


def passed(test: Json) -> bool:
    return bool(test["verdict"] == "PASSED")


def test_a_failed_test_may_contradict_itself(tmp_path: Path) -> None:
    result = golden()
    result["tests"][0]["raw"] |= {"wrong_sums": 3, "validation_counted": 7999, "validation_miscounted": 1}
    result = judged(result)
    assert result["tests"][0]["verdict"] == "FAILED"
    assert verified(result, tmp_path) == []


def test_a_contradiction_is_named(tmp_path: Path) -> None:
    result = golden()
    result["tests"][1]["raw"]["steps"] = 9
    claim = "tests[1].raw does not fulfil: steps = EPOCHS x the steps of all models"
    assert verified(judged(result), tmp_path) == [claim]
