"""What is derived from raw measurements: the row, the checks, the scores and the verdict on a whole run."""

import hashlib
import json
import math
from typing import Any

import pytest
from small_run import cases_of, golden, judged

from hpcai import opcount, result
from hpcai.inputfile import Case
from hpcai.networks import build
from hpcai.result.checks import CEILING

Json = dict[str, Any]
SETTINGS = {"MAPPING": "row", "DEGREE": 1, "ALLREDUCE": "flat", "PRECISION": "fp32", "PARALLEL": "data"}
PROVIDED = {"KERNELS": "vendor", "WIRE": "fp32"}


def row(raw: Json | None = None, index: int = 0, **settings: Any) -> Json:
    """A test of the stored run judged again, with other raw measurements or settings."""
    stored = golden()
    case = cases_of(stored)[index]
    changed = Case(case.index, case.workload, {**case.settings, **settings})
    return result.judge(changed, {**stored["tests"][index]["raw"], **(raw or {})}, [])


def check(judged: Json, name: str) -> Json:
    return next(check for check in judged["checks"] if name in check["name"])


def test_row_of_the_first_test() -> None:
    """resnet8 on one 28 x 28 picture: 18,691,840 FLOP forward, 55,849,728 with the backward pass."""
    first = row({"samples": 800, "phases": {**golden()["tests"][0]["raw"]["phases"], "training": 2.0}})
    graph = build("resnet8", (28, 28), 1, 10)
    assert first["operations"]["per_sample"] == opcount.count(graph, "model").total == 55_849_728
    assert first["operations"]["credited"] == 44_679_782_400
    assert first["seconds"] == first["phases"]["training"] == 2.0
    assert first["gflops"] == 22.3398912
    assert first["scores"]["flops"] == 22_339_891_200.0
    assert first["scores"]["images_per_second"] == 400.0
    assert [first[name] for name in ("tv", "n", "nb", "p", "q")] == ["WR10S1V4", 800, 32, 2, 1]


@pytest.mark.parametrize(
    ("settings", "tv"),
    [
        ({}, "WR10S1V4"),
        ({"MAPPING": "column"}, "WC10S1V4"),
        ({"DEGREE": 2}, "WR11S1V4"),
        ({"DEGREE": 64, "MAPPING": "column"}, "WC11S1V4"),
    ],
)
def test_tv(settings: Json, tv: str) -> None:
    assert result.tv({**SETTINGS, **PROVIDED, **settings}) == tv


@pytest.mark.parametrize("value", [math.nan, math.inf, 16.000001])
def test_a_check_that_does_not_hold(value: float) -> None:
    assert result.at_most("x", value, 16.0)["verdict"] == "FAILED"


def test_a_check_at_its_limit_holds() -> None:
    assert result.at_most("x", 16.0, 16.0) == {"name": "x", "value": 16.0, "limit": 16.0, "verdict": "PASSED"}
    assert result.at_most("x", -math.inf, 16.0)["verdict"] == "PASSED"


FAULTS: list[tuple[str, Json]] = [
    ("||Ax-b||", {"residuals": {"scaled": {"value": 16.1, "where": ""}, "elementwise": {"value": 0.5, "where": ""}}}),
    ("max|C-L*R|", {"residuals": {"scaled": {"value": 0.1, "where": ""}, "elementwise": {"value": 1.01, "where": ""}}}),
    ("||Ax-b||", {"residuals": {"scaled": {"value": math.nan, "where": ""}, "elementwise": {"value": 0, "where": ""}}}),
    ("all-reduce", {"wrong_sums": 1}),
    ("differing ranks", {"differing_ranks": 1}),
    ("loss not finite", {"diverged_models": 1}),
    ("operations credited", {"executed_operations": 44_679_782_400 - 55_849_728}),
    ("operations credited", {"executed_operations": 44_679_782_400 + 1}),
    ("operations credited", {"samples": 801}),
    ("judged exactly once", {"validation_miscounted": 1}),
    ("pairwise disagreement", {"agreeing_pairs": 2000}),
]


@pytest.mark.parametrize(("name", "raw"), FAULTS)
def test_one_fault_fails_one_check_and_the_test(name: str, raw: Json) -> None:
    faulty = row(raw)
    assert [check["name"] for check in faulty["checks"] if check["verdict"] == "FAILED"] == [
        check(faulty, name)["name"]
    ]
    assert faulty["verdict"] == "FAILED"
    assert faulty["status"] == "INVALID" and faulty["reasons"][0] == "checks FAILED, official PASSED"


def test_no_fault() -> None:
    sound = row()
    verdicts = {check["name"]: check["verdict"] for check in sound["checks"]}
    assert verdicts.pop(CEILING) == "NOT CHECKED"  # of real pictures nobody knows the best quality
    assert set(verdicts.values()) == {sound["verdict"]} == {"PASSED"}
    assert len(sound["checks"]) == 13 and len(row(index=1)["checks"]) == 12  # one model has none to disagree with
    assert (sound["status"], row(RESIDUAL=0.01)["status"]) == ("UNOFFICIAL", "INVALID")


def test_operations_not_executed_are_told_in_samples() -> None:
    faulty = row({"executed_operations": 44_679_782_400 - 3 * 55_849_728})
    assert check(faulty, "operations credited")["value"] == 3.0


def test_scores_by_hand() -> None:
    scores = row({"correct": 1700, "target": 0.8})["scores"]
    assert scores["quality"] == 0.85 and scores["reached"] is True
    assert scores["valid_flops"] == pytest.approx(scores["flops"] * 1.0625**5)
    members = {"member_correct_sum": 3000, "member_correct_min": 1400, "member_correct_max": 1600}
    scores = row({**members, "member_correct_best": 1650, "bag_correct": 30, "bag_judged": 120, "agreeing_pairs": 500})[
        "scores"
    ]
    assert [scores[f"member_{name}"] for name in ("mean", "min", "max", "best")] == [0.75, 0.7, 0.8, 0.825]
    assert (scores["out_of_bag"], scores["disagreement"]) == (0.25, 0.75)


def test_a_quality_below_the_target_is_no_failure() -> None:
    missed = row({"correct": 1699, "target": 0.85})
    assert missed["scores"]["reached"] is False and missed["verdict"] == "PASSED"
    assert missed["scores"]["valid_flops"] < missed["scores"]["flops"]


def test_time_to_quality_needs_every_model() -> None:
    reached = {"reached_seconds_sum": 5.0, "reached_seconds_max": 3.0, "reached_epochs_sum": 3, "reached_epochs_max": 2}
    names = ("time_to_quality", "time_to_quality_mean", "epochs_to_quality", "epochs_to_quality_mean")
    scores = row({**reached, "reached_models": 2})["scores"]
    assert [scores[name] for name in names] == [3.0, 2.5, 2, 1.5]
    scores = row({**reached, "reached_models": 1})["scores"]
    assert [scores[name] for name in names] == [None] * 4


def test_one_model_has_no_bag_and_nobody_to_disagree_with() -> None:
    scores = row(index=1)["scores"]
    assert scores["out_of_bag"] is None and scores["disagreement"] is None


def sweep(*changes: Json) -> list[float]:
    """Efficiencies of tests that differ from the stored one as given; each trains twice as long as the one before."""
    stored, tests = golden(), list[Json]()
    case, raw = cases_of(stored)[0], stored["tests"][0]["raw"]
    for index, change in enumerate(changes):
        phases = {**raw["phases"], "training": 2.0**index}
        settings = {**case.settings, **change}
        tests.append(result.judge(Case(index + 1, case.workload, settings), {**raw, "phases": phases}, tests))
    return [test["scores"]["efficiency"] for test in tests]


def test_efficiency_against_the_first_case_of_the_sweep() -> None:
    """Two ranks at 1, then the same work in twice the time: half by as many ranks, a quarter by twice as many."""
    assert sweep({}, {"MAPPING": "column"}) == [1.0, 0.5]
    assert sweep({}, {"DEGREE": 2}, {"GROUPS": 1}) == [1.0, 0.25, 0.5]


@pytest.mark.parametrize(
    "change", [{"BATCH": 64}, {"NETWORK": "resnet14"}, {"EPOCHS": 3}, {"LEARNRATE": 0.1}, {"SAMPLES": 100}]
)
def test_efficiency_only_between_tests_that_differ_in_the_grid_alone(change: Json) -> None:
    assert sweep({}, change) == [1.0, 1.0]
    assert sweep({}, change, {**change, "GROUPS": 1}, {"GROUPS": 1}) == [1.0, 1.0, 1.0, 0.25]


def test_digest_is_of_the_sorted_compact_json() -> None:
    """INTERFACE section 4: keys sorted, separators `,` and `:`, UTF-8 unescaped, `digest` left out."""
    document = {"b": [1, 2.5, None, True], "a": "\u00e9", "digest": "x"}
    expected = hashlib.sha256('{"a":"\u00e9","b":[1,2.5,null,true]}'.encode()).hexdigest()
    assert result.digest(document) == expected
    with pytest.raises(ValueError, match="JSON compliant"):
        result.digest({"a": math.nan})


def test_digest_of_the_stored_result() -> None:
    stored = golden()
    text = json.dumps({k: v for k, v in stored.items() if k != "digest"}, sort_keys=True, separators=(",", ":"))
    assert text.isascii() and hashlib.sha256(text.encode()).hexdigest() == stored["digest"]


def test_best_row_is_the_one_with_most_valid_flops() -> None:
    altered = golden()
    altered["tests"][0]["raw"]["correct"], altered["tests"][1]["raw"]["correct"] = 100, 2000
    best = judged(altered)["summary"]["best"]
    assert (best["index"], best["P"], best["Q"], best["quality"]) == (2, 1, 2, 1.0)
    assert best["gflops"] == altered["tests"][1]["gflops"] < altered["tests"][0]["gflops"]
    assert best["valid_gflops"] == pytest.approx(best["gflops"] * 20**5)


def test_a_failed_row_is_the_best_only_if_all_failed() -> None:
    altered = golden()
    altered["tests"][0]["raw"]["wrong_sums"] = 1
    summary = judged(altered)["summary"]
    assert (summary["best"]["index"], summary["passed"], summary["failed"], summary["valid"]) == (2, 1, 1, "INVALID")
    altered["tests"][1]["raw"]["wrong_sums"] = 1
    summary = judged(altered)["summary"]
    assert (summary["best"]["index"], summary["passed"], summary["failed"]) == (1, 0, 2)


def test_summary_of_a_complete_run() -> None:
    summary = golden()["summary"]
    assert [summary[name] for name in ("planned", "tests", "passed", "failed", "skipped")] == [2, 2, 2, 0, 0]
    assert summary["complete"] is True and summary["valid"] == "UNOFFICIAL"


@pytest.mark.parametrize("ended", [0, 1])
def test_a_run_that_was_broken_off_is_invalid(ended: int) -> None:
    partial = golden()
    del partial["tests"][ended:]
    summary = judged(partial)["summary"]
    assert (summary["complete"], summary["planned"], summary["tests"]) == (False, 2, ended)
    assert summary["valid"] == "INVALID"
    assert summary["reasons"][0] == f"run broken off after {ended} of 2 tests"
    assert (summary["best"] is None) == (ended == 0)
