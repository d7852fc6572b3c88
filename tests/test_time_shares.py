"""Where the time went: shares from raw seconds, claims that a real run fulfils, and lines that tell it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from alterations import leaves, put, verified
from hpcai.report.consistency import times as claims
from hpcai.result.times import operation_shares, phase_shares, spread
from hpcai.result.times import times as derived
from report_readers import read_tests
from small_run import cases_of, failing_run, judged, live_run, renewed

from hpcai.report import consistency, times
from hpcai.train.operators import CLASSES

Json = dict[str, Any]
MEASURED = ("step_seconds", "busy_seconds", "waiting_seconds", "operation_seconds")
SHARES = ("share of training, ", "share of the phases, ", "share of the operators, ")

RAW = {
    "phases": {"training": 10.0, "data wait": 2.0, "exposed communication": 3.0},
    "busy_seconds": {"min": 5.0, "mean": 6.0, "max": 8.0, "slowest_rank": 3, "slowest_host": "node7"},
    "waiting_seconds": {"data": 1.0, "communication": 2.5},
    "operation_seconds": dict(zip(CLASSES, (3.0, 1.0, 0.5, 0.5, 0.0), strict=True)),
}


def test_shares_of_the_training_add_up_to_one() -> None:
    scores = derived(RAW)
    assert scores["training_shares"] == pytest.approx(
        {"compute": 0.6, "exposed communication": 0.25, "data wait": 0.1, "idle": 0.05}
    )
    assert scores["busy_spread"] == 0.5
    assert scores["operation_shares"] == dict(zip(CLASSES, (0.6, 0.2, 0.1, 0.1, 0.0), strict=True))


def test_rounding_leaves_no_rank_less_than_idle() -> None:
    busy = {"busy_seconds": {**RAW["busy_seconds"], "mean": 6.5 + 1e-12}}
    assert derived({**RAW, **busy})["training_shares"]["idle"] == 0.0


def test_every_second_counts_once_among_the_phases() -> None:
    first = {"start-up": 10.0, "staging": 1.0, "set-up": 2.0, "residuals": 1.0, "warm-up": 2.0}
    later = {"training": 5.0, "data wait": 4.0, "exposed communication": 1.0, "validation": 4.0, "profile": 1.0}
    shares = {"start-up": 0.2, "staging": 0.05, "set-up": 0.1, "residuals": 0.05, "warm-up": 0.1}
    assert phase_shares(first | later) == shares | {"training": 0.25, "validation": 0.2, "profile": 0.05}
    assert phase_shares({"set-up": 1.0, **later})["set-up"] == pytest.approx(1 / 11)
    assert phase_shares({"start-up": 1.0, "set-up": 2.0, "training": 2.0})["start-up"] == 0.0


def test_what_nothing_is_known_of() -> None:
    assert operation_shares(dict.fromkeys(CLASSES, 0.0)) is None
    assert spread({"min": 0.0, "mean": 0.0, "max": 0.0}) == 0.0
    told = list(times.lines({**live_run().result["tests"][0], "scores": without_operators()}))
    assert sum(line.endswith("= " + "n/a, not told".rjust(16)) for line in told) == len(CLASSES)


def without_operators() -> Json:
    return {**live_run().result["tests"][0]["scores"], "operation_shares": None}


@pytest.mark.parametrize("index", [0, 1])
def test_a_real_run(index: int) -> None:
    test = live_run().result["tests"][index]
    raw, scores, ranks = test["raw"], test["scores"], test["p"] * test["q"]
    assert raw["step_seconds"]["count"] == raw["model_steps_max"] == (14 if test["q"] == 1 else 8)
    assert 0 < raw["step_seconds"]["median"] <= raw["step_seconds"]["p95"] < test["seconds"]
    assert 0 < raw["busy_seconds"]["min"] <= raw["busy_seconds"]["max"] <= test["seconds"]
    assert 0 <= raw["busy_seconds"]["slowest_rank"] < ranks == 2
    assert raw["busy_seconds"]["slowest_host"] == live_run().result["ranks"][0]["host"]
    assert (test["phases"]["exposed communication"] > 0) == (test["q"] > 1)
    for shares in (scores["training_shares"], scores["phase_shares"], scores["operation_shares"]):
        assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
        assert all(share >= 0 for share in shares.values())
    assert scores["operation_shares"]["convolution"] > 0


def test_the_report_names_the_slowest_rank() -> None:
    for test in live_run().result["tests"]:
        busy = test["raw"]["busy_seconds"]
        said = f"\nSlowest : rank {busy['slowest_rank']} on {busy['slowest_host']}, busy for {busy['max']:.3f} of "
        assert said in live_run().job.stdout
    for _, lines in read_tests(live_run().job.stdout):
        shares = [float(value) for name, (value, _) in lines.items() if name.startswith(SHARES)]
        assert sum(shares) == pytest.approx(3, abs=1e-5)


def test_a_host_is_no_verdict() -> None:
    test = live_run().result["tests"][0]
    busy = {**test["raw"]["busy_seconds"], "slowest_host": "FAILED7"}
    assert "on Failed7," in times.note({**test, "raw": {**test["raw"], "busy_seconds": busy}})


@cache
def _stored() -> str:
    return json.dumps(live_run().result)


def stored() -> Json:
    """The live run's result, to be altered at will."""
    return dict(json.loads(_stored()))


def test_every_altered_second_is_caught(tmp_path: Path) -> None:
    assert not verified(stored(), tmp_path)
    for path, value in leaves(stored()):
        if set(path) & {*MEASURED, "phases", "phase_shares", "training_shares", "operation_shares", "busy_spread"}:
            other = value * (1 + 1e-7) + 1e-300 if isinstance(value, float) else value * 2 + type(value)(1)
            assert verified(renewed(put(stored(), path, other)), tmp_path), path


def broken(index: int, **raw: Json) -> list[str]:
    """The claims that a test of the live run breaks with other raw measurements."""
    test = stored()["tests"][index]["raw"]
    for name, changes in raw.items():
        test[name] |= changes
    return list(consistency.contradictions(cases_of(live_run().result)[index], test))


def test_real_runs_break_no_claim() -> None:
    assert broken(0) == broken(1) == []
    run = failing_run()
    passed = [
        pair for pair in zip(cases_of(run.result), run.result["tests"], strict=True) if pair[1]["verdict"] == "PASSED"
    ]
    assert passed and not any(list(consistency.contradictions(case, test["raw"])) for case, test in passed)


@pytest.mark.parametrize(
    ("claim", "index", "raw"),
    [
        ("step_seconds: count, of a model", 0, {"step_seconds": {"count": 13}}),
        ("step_seconds: count, of a model", 1, {"step_seconds": {"count": 9}}),
        ("step_seconds: 0 < median <= p95", 0, {"step_seconds": {"median": 0.0}}),
        ("step_seconds: 0 < median <= p95", 0, {"step_seconds": {"p95": 1e-9}}),
        ("step_seconds: half of the steps last the median", 0, {"step_seconds": {"mean": 1e-9}}),
        ("step_seconds: half of the steps last the median", 0, {"step_seconds": {"p95": 1e6}}),
        ("step_seconds: all steps within training", 0, {"step_seconds": {"mean": 1e6}}),
        ("busy_seconds: 0 <= min <= mean <= max", 0, {"busy_seconds": {"min": -0.1}}),
        ("busy_seconds: 0 <= min <= mean <= max", 0, {"busy_seconds": {"max": 0.0}}),
        ("busy_seconds: mean, with one rank at min, one at max", 0, {"busy_seconds": {"min": 0.0}}),
        ("busy_seconds: max <= training", 0, {"busy_seconds": {"max": 1e6}}),
        ("busy_seconds: max >= training - waiting", 0, {"busy_seconds": {"min": 0.0, "mean": 0.0, "max": 0.0}}),
        ("busy_seconds: slowest_rank is active", 0, {"busy_seconds": {"slowest_rank": 2}}),
        ("busy_seconds: slowest_rank is active", 1, {"busy_seconds": {"slowest_rank": -1}}),
        ("waiting_seconds: max <= sum <= ranks x max", 0, {"waiting_seconds": {"data": 0.0}}),
        ("waiting_seconds: max <= sum <= ranks x max", 1, {"waiting_seconds": {"communication": 1e6}}),
        ("busy and waiting seconds <= training", 1, {"waiting_seconds": {"communication": 1e6}}),
        ("one rank of a model does not communicate", 0, {"phases": {"exposed communication": 0.001}}),
        ("operation_seconds >= 0", 0, {"operation_seconds": {"GEMM": -0.1}}),
        ("operation_seconds <= phase profile", 0, {"operation_seconds": {"other": 1e6}}),
        ("operation_seconds <= phase profile", 1, {"phases": {"profile": 1e-6}}),
    ],
)
def test_each_claim_can_be_broken(claim: str, index: int, raw: Json) -> None:
    assert claim in broken(index, **raw)


def test_every_claim_is_broken_above() -> None:
    case, raw = cases_of(live_run().result)[0], stored()["tests"][0]["raw"]
    made = {claim for topic in (claims.steps, claims.ranks, claims.operations) for claim in topic(case, raw)}
    (mark,) = [mark for mark in test_each_claim_can_be_broken.pytestmark if mark.name == "parametrize"]
    assert made == {claim for claim, _, _ in mark.args[1]}


def test_a_share_cannot_be_forged_with_all_that_follows(tmp_path: Path) -> None:
    """Less waiting for data, more compute: the slowest rank's training, which is Time, has to be forged as well."""
    result = stored()
    raw = result["tests"][0]["raw"]
    raw["waiting_seconds"]["data"] = raw["phases"]["data wait"] = 0.0
    raw["busy_seconds"] |= dict.fromkeys(("min", "mean", "max"), 1.1 * raw["phases"]["training"])
    assert any("busy_seconds: max <= training" in found for found in verified(judged(result), tmp_path))
