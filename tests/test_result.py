"""Values derived from raw measurements: the row, the checks, the scores and the verdict on a whole run."""

import hashlib
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from examples.training import rebuilt as fitted
from examples.training import stored
from msgspec import structs
from small_run import golden, rebuilt

from hpcai import opcount
from hpcai.networks import build
from hpcai.record.check_declarations import CEILING, CLAIMS
from hpcai.record.entry import Check
from hpcai.record.plain import digest
from hpcai.record.training import TrainingRow
from hpcai.report.rows import check_lines
from hpcai.results.alterations import changed
from hpcai.results.assembly import failed_by, with_claims
from hpcai.results.measured import Before, Measured
from hpcai.results.row import tv
from hpcai.workloads.ensemble import checks

Json = dict[str, Any]
SETTINGS = {"MAPPING": "row", "DEGREE": 1, "ALLREDUCE": "flat", "PRECISION": "fp32", "PARALLEL": "data"}
PROVIDED = {"KERNELS": "vendor", "WIRE": "fp32"}


def row(raw: Json | None = None, index: int = 0, **settings: Any) -> TrainingRow:
    """A test of the stored run built again, with other raw measurements (by path) or settings."""
    alterations = (changed(f"raw.{path}", value) for path, value in (raw or {}).items())
    entry: TrainingRow = fitted(stored("ensemble")[index], *alterations, **settings).entry
    return entry


def check(entry: TrainingRow, name: str) -> Check:
    return next(check for check in entry.checks if name in check.name)


def test_the_row_of_the_first_test() -> None:
    """resnet8 on one 28 x 28 image: 18,691,840 FLOP forward, 55,849,728 with the backward pass."""
    first = row({"work.samples": 800, "phases.training": 2.0})
    graph = build("resnet8", (28, 28), 1, 10)
    assert first.operations.per_sample == opcount.count(graph, "model").total == 55_849_728
    assert first.operations.credited == 44_679_782_400
    assert first.seconds == first.phases.training == 2.0
    assert first.gflops == 22.3398912
    assert first.scores.flops == 22_339_891_200.0
    assert first.scores.samples_per_second == 400.0
    assert [first.tv, first.n, first.nb, first.p, first.q] == ["WR10S1V4", 800, 32, 2, 1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "WR10S1V4"),
        ({"MAPPING": "column"}, "WC10S1V4"),
        ({"DEGREE": 2}, "WR11S1V4"),
        ({"DEGREE": 64, "MAPPING": "column"}, "WC11S1V4"),
    ],
)
def test_the_name_of_a_row_follows_from_the_settings(settings: Json, expected: str) -> None:
    assert tv(replace(stored("ensemble")[0].case, settings={**SETTINGS, **PROVIDED, **settings})) == expected


OLDER: Json = {"replay.repeated": None}
FAULTS: list[tuple[str, Json]] = [
    ("||Ax-b||", {"preparation.residuals.scaled.value": 16.1}),
    ("max|C-L*R|", {"preparation.residuals.elementwise.value": 1.01}),
    ("all-reduce", {"preparation.wrong_sums": 1}),
    ("differing ranks", {"work.differing_ranks": 1}),
    ("loss not finite", {"work.diverged_models": 1}),
    ("operations credited", {"work.executed_operations": 44_679_782_400 - 55_849_728}),
    ("operations credited", {"work.executed_operations": 44_679_782_400 + 1}),
    ("operations credited", {"work.samples": 801}),
    ("evaluated exactly once", {"work.validation_miscounted": 1}),
    ("weights of the next one", {"replay.repeated": 2}),
    ("pairwise disagreement", {**OLDER, "ensemble.agreeing_pairs": 2000, "ensemble.recount.agreeing_pairs": 2000}),
    ("counts not confirmed", {"ensemble.correct": 1699}),
    ("counts not confirmed", {"ensemble.recount.wrong_votes": 1}),
    ("counts not confirmed", {"delivered.miscounted_validations": 1}),
]


@pytest.mark.parametrize(("name", "raw"), FAULTS)
def test_one_fault_fails_one_check_and_the_test(name: str, raw: Json) -> None:
    faulty = row(raw)
    assert [each.name for each in faulty.checks if each.verdict == "FAILED"] == [check(faulty, name).name]
    assert faulty.verdict == "FAILED"
    assert faulty.status == "INVALID" and faulty.reasons[0] == "checks FAILED, official PASSED"


def test_a_residual_that_is_not_finite_fails() -> None:
    subject = stored("ensemble")[0]
    worst = subject.entry.raw.preparation.residuals.scaled
    residuals = structs.replace(subject.entry.raw.preparation.residuals, scaled=structs.replace(worst, value=math.nan))
    preparation = structs.replace(subject.entry.raw.preparation, residuals=residuals)
    raw = structs.replace(subject.entry.raw, preparation=preparation)
    assert checks.build(subject.case, Measured(raw, subject.entry.memory), Before()).verdict == "FAILED"


def test_a_sound_test_has_no_fault() -> None:
    sound = row()
    verdicts = {check.name: check.verdict for check in sound.checks}
    assert verdicts.pop(CEILING.name) == "NOT CHECKED"  # the best quality on real images is unknown
    assert set(verdicts.values()) == {sound.verdict} == {"PASSED"}
    assert len(sound.checks) == 31 and len(row(index=1).checks) == 30  # one model has no disagreement
    assert (sound.status, row(RESIDUAL=0.01).status) == ("UNOFFICIAL", "INVALID")


STEPS = "steps = EPOCHS x the steps of all models"


@pytest.mark.parametrize(
    ("raw", "verdict", "printed", "causes"),
    [
        ({}, "PASSED", "0.0000000 ...... PASSED", []),
        ({"work.steps": 1}, "FAILED", "1.0000000 ...... FAILED", [STEPS]),
        ({"work.steps": 1, "work.diverged_models": 1}, "NOT CHECKED", "n/a, test failed ...... NOT CHECKED", []),
    ],
)
def test_claims_are_checked_unless_another_check_failed(
    raw: Json, verdict: str, printed: str, causes: list[str]
) -> None:
    test = stored("ensemble")[0]
    entry = with_claims(test.case, row(raw), test.environment)
    assert isinstance(entry, TrainingRow)
    assert (entry.checks[-1].name, entry.checks[-1].verdict) == (CLAIMS.name, verdict)
    assert entry.verdict == ("FAILED" if raw else "PASSED") and entry.status == ("INVALID" if raw else "UNOFFICIAL")
    assert failed_by(test.case, entry, test.environment) == causes
    (line,) = (line for line in check_lines(entry) if CLAIMS.name in line)
    assert line.endswith(printed)


def test_missing_operations_are_counted_in_samples() -> None:
    faulty = row({"work.executed_operations": 44_679_782_400 - 3 * 55_849_728})
    assert check(faulty, "operations credited").value == 3.0


def test_scores_by_hand() -> None:
    scores = row({"ensemble.correct": 1700, "target": 0.8}).scores
    assert scores.quality == 0.85 and scores.reached is True
    assert scores.valid_flops == pytest.approx(scores.flops * 1.0625**5)
    together = {"correct": 400, "bag_correct": 30, "bag_evaluated": 120, "agreeing_pairs": 500}
    scores = row({"members": {"sum": 3000, "min": 1400, "max": 1600, "best": 1650}, "ensemble": together}).scores
    found = (scores.member_mean, scores.member_min, scores.member_max, scores.member_best)
    assert found == (0.75, 0.7, 0.8, 0.825)
    assert (scores.out_of_bag, scores.disagreement) == (0.25, 0.75)


def test_a_quality_below_the_target_does_not_fail_the_test() -> None:
    missed = row({"ensemble.correct": 1699, "ensemble.recount.correct": 1699, "target": 0.85})
    assert missed.scores.reached is False and missed.verdict == "PASSED"
    assert missed.scores.valid_flops < missed.scores.flops


def test_time_to_quality_needs_every_model() -> None:
    sums = {"seconds_sum": 5.0, "seconds_max": 3.0, "epochs_sum": 3, "epochs_max": 2}
    reached = {f"models.reached_{name}": value for name, value in sums.items()}
    names = ("time_to_quality", "time_to_quality_mean", "epochs_to_quality", "epochs_to_quality_mean")
    scores = row({**reached, "models.reached": 2}).scores
    assert [getattr(scores, name) for name in names] == [3.0, 2.5, 2, 1.5]
    scores = row({**reached, "models.reached": 1}).scores
    assert [getattr(scores, name) for name in names] == [None] * 4


def test_one_model_has_no_bag_and_no_disagreement() -> None:
    scores = row(index=1).scores
    assert scores.out_of_bag is None and scores.disagreement is None


def sweep(*changes: Json) -> list[float]:
    """Efficiencies of tests with other settings than the stored one; each trains twice as long as the previous one."""
    subject, tests = stored("ensemble")[0], list[TrainingRow]()
    for index, change in enumerate(changes):
        phases = structs.replace(subject.entry.phases, training=2.0**index)
        measured = Measured(structs.replace(subject.entry.raw, phases=phases), subject.entry.memory)
        case = replace(subject.case, index=index + 1, settings={**subject.case.settings, **change})
        tests.append(checks.build(case, measured, Before(tests)))
    return [test.scores.efficiency for test in tests]


def test_efficiency_is_relative_to_the_first_case_of_the_sweep() -> None:
    """Two ranks at 1, then the same work in twice the time: half by as many ranks, a quarter by twice as many."""
    assert sweep({}, {"MAPPING": "column"}) == [1.0, 0.5]
    assert sweep({}, {"DEGREE": 2}, {"GROUPS": 1}) == [1.0, 0.25, 0.5]


@pytest.mark.parametrize(
    "change", [{"BATCH": 64}, {"NETWORK": "resnet14"}, {"EPOCHS": 3}, {"LEARNRATE": 0.1}, {"SAMPLES": 100}]
)
def test_efficiency_compares_only_tests_that_differ_in_the_grid_alone(change: Json) -> None:
    assert sweep({}, change) == [1.0, 1.0]
    assert sweep({}, change, {**change, "GROUPS": 1}, {"GROUPS": 1}) == [1.0, 1.0, 1.0, 0.25]


def test_the_digest_is_that_of_the_sorted_compact_json() -> None:
    """INTERFACE section 4: keys sorted, separators `,` and `:`, UTF-8 unescaped, `digest` left out."""
    document = {"b": [1, 2.5, None, True], "a": "\u00e9", "digest": "x"}
    expected = hashlib.sha256('{"a":"\u00e9","b":[1,2.5,null,true]}'.encode()).hexdigest()
    assert digest(document) == expected
    with pytest.raises(ValueError, match="JSON compliant"):
        digest({"a": math.nan})


def test_the_digest_of_the_stored_result() -> None:
    stored = golden()
    text = json.dumps({k: v for k, v in stored.items() if k != "digest"}, sort_keys=True, separators=(",", ":"))
    assert text.isascii() and hashlib.sha256(text.encode()).hexdigest() == stored["digest"]


def test_the_best_row_has_most_valid_flops() -> None:
    altered = golden()
    altered["tests"][0]["raw"]["ensemble"]["correct"] = 100
    (best,) = rebuilt(altered)["summary"]["best"]
    assert (best["index"], best["P"], best["Q"], best["quality"]) == (2, 1, 2, 0.162)
    assert best["gflops"] == altered["tests"][1]["gflops"] < altered["tests"][0]["gflops"]
    assert best["figures"]["valid_gflops"] == pytest.approx(best["gflops"] * 3.24**5)


def test_a_failed_row_is_the_best_only_if_all_failed() -> None:
    altered = golden()
    altered["tests"][0]["raw"]["preparation"]["wrong_sums"] = 1
    summary = rebuilt(altered)["summary"]
    assert (summary["best"][0]["index"], summary["passed"], summary["failed"], summary["valid"]) == (2, 1, 1, "INVALID")
    altered["tests"][1]["raw"]["preparation"]["wrong_sums"] = 1
    summary = rebuilt(altered)["summary"]
    assert (summary["best"][0]["index"], summary["passed"], summary["failed"]) == (1, 0, 2)


def test_the_summary_of_a_complete_run() -> None:
    summary = golden()["summary"]
    assert [summary[name] for name in ("planned", "tests", "passed", "failed", "skipped")] == [2, 2, 2, 0, 0]
    assert summary["complete"] is True and summary["valid"] == "UNOFFICIAL"


@pytest.mark.parametrize("ended", [0, 1])
def test_a_run_that_was_broken_off_is_invalid(ended: int) -> None:
    partial = golden()
    del partial["tests"][ended:]
    summary = rebuilt(partial)["summary"]
    assert (summary["complete"], summary["planned"], summary["tests"]) == (False, 2, ended)
    assert summary["valid"] == "INVALID"
    assert summary["reasons"][0] == f"run broken off after {ended} of 2 tests"
    assert (summary["best"] == []) == (ended == 0)
