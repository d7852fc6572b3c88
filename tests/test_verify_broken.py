"""Verification of runs that ended early: the last test claims no more work than possible."""

from pathlib import Path
from typing import Any

import pytest
from alterations import verified
from msgspec import ValidationError, convert
from small_run import cases_of, golden, rebuilt

from hpcai.errors import InputError
from hpcai.record.loading import result_of
from hpcai.record.plain import plain
from hpcai.results.assembly import broken_off
from hpcai.workloads.ensemble.record import StoppedEnsemble

Json = dict[str, Any]
SIGNAL = "SIGTERM on rank 1"
SAMPLE = 55_849_728  # operations of a sample


def ended(**changes: Any) -> Json:
    """The stored run, if it had ended in step 6 of 8 of its second test; some measurements are altered."""
    result = golden()
    raw = result["tests"].pop()["raw"]
    found = {"where": "training", "dataset": raw["dataset"], "samples": 328, "skipped_samples": 0, "steps": 6}
    found |= {"executed_operations": 328 * SAMPLE, "seconds": 0.5}
    return with_early_end(result, {**found, "curve": raw["curve"][:1], **changes})


def with_early_end(result: Json, raw: Json | None, cause: str = SIGNAL, number: int = 1) -> Json:
    """The result with a test that ended early, all derived values computed again."""
    stopped = raw and convert(raw, StoppedEnsemble)
    return rebuilt({**result, "broken_off": plain(broken_off(cases_of(result)[number], cause, stopped))})


def curve(**changes: Any) -> Json:
    """Another entry of the curve."""
    return {"curve": [{**ended()["broken_off"]["raw"]["curve"][0], **changes}]}


def data(**changes: Any) -> Json:
    return {"dataset": {**ended()["broken_off"]["raw"]["dataset"], **changes}}


def again() -> Json:
    """The one entry of the curve twice."""
    return {"curve": ended()["broken_off"]["raw"]["curve"] * 2}


NOTHING = {"samples": 0, "steps": 0, "executed_operations": 0, "seconds": 0.0, "curve": []}
EPOCHS = "broken_off: curve: epochs that EVALUATE asks for, until the loss is not finite"


@pytest.mark.parametrize(
    "changes",
    [{}, NOTHING, {**NOTHING, "where": "preparation"}, {"where": "ensemble"}, curve(loss=None), {"curve": []}],
)
def test_an_early_end_is_verified(changes: Json, tmp_path: Path) -> None:
    assert verified(ended(**changes), tmp_path) == []


def test_a_run_that_was_killed_is_verified(tmp_path: Path) -> None:
    result = golden()
    result["tests"].pop()
    assert verified(rebuilt(result), tmp_path) == []
    assert verified(with_early_end(result, None), tmp_path) == []


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("broken_off: nothing trained in preparation", {"where": "preparation"}),
        ("broken_off: steps <= EPOCHS x the steps of all models", {"steps": 9}),
        ("broken_off: samples + skipped_samples, of the steps", {"samples": 329}),
        ("broken_off: samples + skipped_samples, of the steps", {"samples": 3280}),
        ("broken_off: samples + skipped_samples, of the steps", {"steps": 5}),
        ("broken_off: samples skipped with a loss scale only", {"samples": 264, "skipped_samples": 64}),
        ("broken_off: executed_operations, of the samples", {"executed_operations": 1}),
        ("broken_off: seconds > 0 if, and only if, steps > 0", {"seconds": 0.0}),
        ("broken_off: seconds > 0 if, and only if, steps > 0", {**NOTHING, "seconds": 1.0}),
        ("broken_off: dataset: the one that the input names", data(shape=[1, 224, 224])),
        ("broken_off: training_samples = SAMPLES", data(training_samples=20_000)),
        ("broken_off: curve: counted = validation_samples", curve(counted=1999)),
        ("broken_off: curve: the fingerprint of all samples", curve(fingerprint=1)),
        ("broken_off: curve: correct <= validation_samples", curve(correct=2001)),
        (EPOCHS, curve(epoch=2)),
        (EPOCHS, again()),
        ("broken_off: curve: of epochs that were trained", curve(epoch=2)),
        ("broken_off: curve: epochs go on", again()),
    ],
)
def test_each_claim_can_be_violated(claim: str, changes: Json, tmp_path: Path) -> None:
    assert claim in verified(ended(**changes), tmp_path)


@pytest.mark.parametrize("changes", [{"seconds": -1.0}, {"samples": 328.5}, {"samples": "328"}, {"where": "start"}])
def test_values_that_records_refuse(changes: Json) -> None:
    with pytest.raises(ValidationError):
        ended(**changes)
    ((name, value),) = changes.items()
    result = ended()
    result["broken_off"]["raw"][name] = value
    with pytest.raises(InputError, match=f"broken_off.raw.{name}: "):
        result_of(result)


def test_several_models_have_no_more_samples_than_their_steps(tmp_path: Path) -> None:
    """Two models of 7 steps an epoch, the last of 8 samples: the number of ends of epochs among 10 steps is unknown."""
    result = golden()
    raw, result["tests"] = result["tests"][0]["raw"], []
    for samples, holds in ((320, True), (272, True), (321, False), (271, False)):
        counts = {"samples": samples, "skipped_samples": 0, "steps": 10, "executed_operations": samples * SAMPLE}
        found = {"where": "training", "dataset": raw["dataset"], **counts, "seconds": 0.5, "curve": []}
        assert (verified(with_early_end(result, found, number=0), tmp_path) == []) == holds, samples


@pytest.mark.parametrize(
    "cause",
    ["SIGKILL on rank 1", "SIGTERM on rank 2", "SIGTERM on rank 01", "TIMELIMIT of 0 s", "TIMELIMIT of 1 s"],
)
def test_another_cause_is_detected(cause: str, tmp_path: Path) -> None:
    result = golden()
    result["tests"].pop()
    (found,) = verified(with_early_end(result, None, cause), tmp_path)
    assert found.startswith("broken_off")


def test_a_cause_must_have_a_name() -> None:
    result = golden()
    result["tests"].pop()
    with pytest.raises(InputError, match=r"broken_off\.cause: "):
        with_early_end(result, None, "")


def test_only_the_test_after_the_last_can_have_ended_early(tmp_path: Path) -> None:
    claim = "broken_off: the test after the last, of a run that is not complete"
    assert claim in verified(with_early_end(golden(), None), tmp_path)
    result = golden()
    result["tests"].pop()
    assert claim in verified(with_early_end(result, None, number=0), tmp_path)
