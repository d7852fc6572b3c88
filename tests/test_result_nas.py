"""Values derived from a search: the row, the checks, the scores, its trials, and its place in the summary."""

import copy
from typing import Any

import pytest
from msgspec import convert
from small_run import cases_of, golden, rebuilt
from synthetic_search import PLANS, Change, all_of, put, searched, with_ensemble

from hpcai import opcount
from hpcai.formulas.aiperf import work
from hpcai.networks import build
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import Morphism
from hpcai.record.loading import result_of
from hpcai.workloads.nas.credits import graphs as graphs_of

Json = dict[str, Any]

INITIAL = build("resnet8", (28, 28), 1, 10)


def test_the_row_of_a_search() -> None:
    test = searched()["tests"][0]
    raw = test["raw"]
    assert [test[name] for name in ("tv", "nb", "p", "q", "workload")] == ["WR30S1V4", 32, 2, 1, "nas"]
    samples = [entry["samples"] for trial in raw["trials"] for entry in trial["curve"]]
    assert test["n"] == raw["work"]["samples"] == sum(samples)
    assert test["seconds"] == raw["seconds"] - raw["group_seconds"]["validation"]["min"] < raw["seconds"]
    assert test["operations"]["per_sample"] == opcount.count(INITIAL, "model").total == 55_849_728
    assert test["gflops"] == pytest.approx(test["operations"]["credited"] / test["seconds"] / 1e9)


def test_operations_are_those_of_each_trials_own_network() -> None:
    test = searched()["tests"][0]
    wider = morphed(INITIAL, convert(PLANS[1][3], tuple[Morphism, ...]))
    first, second = test["trials"][:2]
    for trial, graph in ((first, INITIAL), (second, wider)):
        each = work(graph)
        assert trial["ops"] == 200 * each.training + 2000 * each.validation
    assert first["ops"] < second["ops"]
    graphs = graphs_of(cases_of(searched())[0], result_of(searched()).tests[0].raw)
    credited = sum(
        opcount.count(graphs[trial["id"]], "model").total * sum(entry["samples"] for entry in trial["curve"])
        for trial in test["raw"]["trials"]
    )
    assert test["operations"]["credited"] == test["operations"]["executed"] == credited


def test_the_trials_of_a_search() -> None:
    trials = searched()["tests"][0]["trials"]
    assert [trial["accuracy"] for trial in trials] == [0.15, 0.2, 0.35, 0.0, 0.45, 0.5, 0.6, 0.0, 0.45]
    assert [trial["verdict"] for trial in trials] == [plan[-1] for plan in PLANS]
    names = "id worker round parent operation hyperparameters accuracy ops given started returned verdict"
    assert list(trials[0]) == names.split()


def test_the_scores_of_a_search() -> None:
    test = searched()["tests"][0]
    scores, raw = test["scores"], test["raw"]
    assert (scores["quality"], scores["target"], scores["reached"]) == (0.6, 0.5, True)
    total = scores["training_operations"] + scores["validation_operations"]
    assert total == scores["series"][-1]["operations"] == sum(trial["ops"] for trial in test["trials"])
    assert scores["ops"] == total / raw["seconds"]
    assert scores["regulated_score"] == max(
        point["regulated_score"] for point in scores["series"] if point["seconds"] >= raw["seconds"] / 2
    )
    assert scores["regulated_last"] == scores["series"][-1]["regulated_score"] < scores["regulated_score"]
    assert scores["idle_share"] == raw["group_seconds"]["idle"]["mean"] / raw["seconds"]
    assert sum(scores["shares"].values()) == pytest.approx(1)
    mean = raw["group_seconds"]["training"]["mean"]
    assert scores["training_rate"] == pytest.approx(test["operations"]["credited"] / mean)
    assert scores["ends"] == {"planned": 6, "patience": 0, "time": 1, "diverged": 1, "memory": 1, "lost": 0}
    assert scores["failed_trials"] == 2 and len(scores["series"]) == 50 and scores["efficiency"] == 1


def test_quality_is_reached_at_the_first_sufficient_validation() -> None:
    test = searched()["tests"][0]
    scores, third = test["scores"], test["raw"]["trials"][5]
    assert scores["time_to_quality"] == third["curve"][2]["seconds"]
    assert 0 < scores["operations_to_quality"] < scores["series"][-1]["operations"]
    missed = searched("0.9 TARGET")["tests"][0]["scores"]
    assert (missed["reached"], missed["time_to_quality"], missed["operations_to_quality"]) == (False, None, None)


def test_the_interval_is_that_of_the_input() -> None:
    scores = searched("1.5 INTERVAL")["tests"][0]["scores"]
    assert [point["seconds"] for point in scores["series"][:-1]] == [1.5, 3.0, 4.5, 6.0]


def test_a_sound_search_has_no_fault() -> None:
    test = searched()["tests"][0]
    verdicts = [check["verdict"] for check in test["checks"]]
    assert verdicts == ["PASSED"] * 18 + ["NOT CHECKED", "PASSED"] and test["verdict"] == "PASSED"
    assert test["status"] == "UNOFFICIAL"
    assert test["reasons"][2:4] == ["epochs 4, official 60", "network resnet8, official resnet50"]


FAULTS: list[tuple[str, Change]] = [
    ("||Ax-b||", put("residuals.scaled.value", 16.1)),
    ("max|C-L*R|", put("residuals.elementwise.value", 1.01)),
    ("all-reduce", put("wrong_sums", 1)),
    ("differing ranks", put("work.differing_ranks", 1)),
    ("epochs with wrong training samples, all trials", put("replay.wrong_epochs", 1)),
    ("worst deviation of the update", put("replay.deviation.value", 1.1)),
    ("share of a term lost", put("replay.lost.value", 0.3)),
    ("weights changed outside of steps", put("replay.changed_ranks", 1)),
    ("max|child(x)-parent(x)|", put("largest_deviation", 1.1e-10)),
    ("max|child(x)-parent(x)|", put("trials.4.deviation", 1e-9)),
    ("operations credited", put("work.executed_operations", 0)),
    ("operations credited", put("trials.2.executed_operations", 1)),
    ("operations credited", put("trials.2.curve.0.samples", 199)),
    ("operations credited", put("trials.1.morphisms", [])),
    ("trials lost or doubled", put("granted", 10)),
    ("trials lost or doubled", lambda raw: raw["trials"].append(copy.deepcopy(raw["trials"][-1]))),
    ("trials lost or doubled", put("trials.3.round", 3)),
    ("trials lost or doubled", put("trials.3.worker", 0)),
    ("times out of order", put("trials.6.curve.1.seconds", 0.5)),
    ("times out of order", put("trials.6.started", 6.0)),
    ("times out of order", put("trials.6.given", 5.7)),
    ("times out of order", put("trials.6.returned", 4.0)),
    ("not evaluated exactly once", put("trials.6.curve.1.counted", 1999)),
    ("not evaluated exactly once", put("trials.6.curve.1.fingerprint", 1)),
    ("not evaluated exactly once", put("trials.8.curve.1.counted", 1)),
    ("above the ceiling", all_of(put("dataset.ceiling", 0.5), put("dataset.ceiling_error", 0.001))),
]


@pytest.mark.parametrize(("name", "change"), FAULTS)
def test_one_fault_fails_its_check_and_the_test(name: str, change: Change) -> None:
    result = searched()
    change(result["tests"][0]["raw"])
    test = rebuilt(result)["tests"][0]
    failed = [check["name"] for check in test["checks"] if check["verdict"] == "FAILED"]
    assert failed and any(name in each for each in failed), failed
    assert test["verdict"] == "FAILED" and test["status"] == "INVALID"
    assert test["reasons"][0] == "checks FAILED, official PASSED"


def test_the_deviation_is_reported_in_units_of_its_limit() -> None:
    result = searched()
    result["tests"][0]["raw"]["largest_deviation"] = 5e-11
    (check,) = [check for check in rebuilt(result)["tests"][0]["checks"] if "child(x)" in check["name"]]
    assert (check["value"], check["limit"], check["verdict"]) == (pytest.approx(0.5), 1, "PASSED")


def test_clocks_of_two_ranks_may_differ_a_little() -> None:
    result = searched()
    result["tests"][0]["raw"]["trials"][6]["given"] = result["tests"][0]["raw"]["trials"][6]["started"] + 0.05
    assert rebuilt(result)["tests"][0]["verdict"] == "PASSED"


def test_the_summary_of_a_search_alone() -> None:
    (best,), test = searched()["summary"]["best"], searched()["tests"][0]
    assert list(best["figures"]) == ["ops", "highest_ops", "regulated_score", "idle_share", "apc_gflop"]
    assert best["figures"]["regulated_score"] == test["scores"]["regulated_score"]
    late = [point["ops"] for point in test["scores"]["series"] if point["seconds"] >= test["scores"]["least_seconds"]]
    assert best["figures"]["highest_ops"] == test["scores"]["highest_ops"] == max(late) >= best["figures"]["ops"]
    assert best["figures"]["apc_gflop"] == 2 * 32 * test["operations"]["per_sample"] / 1e9
    assert (best["workload"], best["index"], best["P"], best["Q"]) == ("nas", 1, 2, 1)
    assert (best["quality"], best["target"], best["time"]) == (0.6, 0.5, test["seconds"])


def test_the_search_with_the_highest_score_is_the_best() -> None:
    result = searched("row column MAPPING", "1 INTERVAL")
    one, other = result["tests"]
    assert one["scores"]["highest_ops"] == other["scores"]["highest_ops"]
    for trial in other["raw"]["trials"]:
        for entry in trial["curve"]:
            entry["correct"] = entry["correct"] and entry["correct"] + 50
    assert rebuilt(result)["summary"]["best"][0]["index"] == 1  # a higher regulated score does not count
    for trial in one["raw"]["trials"]:
        trial["curve"][0]["seconds"] = trial["curve"][-1]["seconds"]  # credited later
    assert rebuilt(result)["summary"]["best"][0]["index"] == 2


def test_the_summary_of_ensembles_and_a_search() -> None:
    summary, alone = with_ensemble()["summary"], golden()["summary"]
    first, second = summary["best"]
    assert [first] == alone["best"] and summary["tests"] == 3
    assert (second["workload"], second["index"]) == ("nas", 3)


def test_efficiency_is_relative_to_the_first_search_of_the_sweep() -> None:
    tests = searched("row column MAPPING")["tests"]
    for name in ("efficiency", "ops_efficiency"):
        assert [test["scores"][name] for test in tests] == [1.0, 1.0]


def test_repetitions_of_a_search_are_summarised() -> None:
    (entry,) = searched(run="2 REPEAT")["summary"]["repeatability"]
    spreads = entry["spreads"]
    assert entry["tests"] == [1, 2] and spreads["regulated_score"]["cv"] == 0
    assert list(spreads) == ["flops", "ops", "regulated_score", "quality", "operations_to_quality"]
