"""Shares of time: from raw seconds of made-up and real runs, and their printed lines."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from alterations import leaves, put, verified
from examples.training import rebuilt, stored
from report_readers import read_tests
from small_run import live_run, renewed

from hpcai.record.phases import Phases
from hpcai.record.record import fields
from hpcai.record.training import BusySeconds, OperatorSeconds, TrainingRaw
from hpcai.report.training import training_block
from hpcai.results.alterations import changed
from hpcai.results.time_shares import busy_spread, operator_shares, phase_shares, training_shares

Json = dict[str, Any]
MEASURED = ("step_seconds", "busy_seconds", "waiting_seconds", "operator_seconds")
SHARES = ("share of training, ", "share of phases, ", "share of operators, ")
KINDS = [field.name for field in fields(OperatorSeconds)]
OPERATORS = dict(zip(KINDS, (3.0, 1.0, 0.5, 0.5, 0.0), strict=True))
BUSY = BusySeconds(min=5.0, mean=6.0, max=8.0, slowest_rank=3, slowest_host="node7")
SECONDS = {
    "raw.phases.training": 10.0,
    "raw.phases.data_wait": 2.0,
    "raw.phases.exposed_communication": 3.0,
    "raw.busy_seconds.mean": 6.0,
    "raw.waiting_seconds": {"data": 1.0, "communication": 2.5},
}


def raw(**changes: float) -> TrainingRaw:
    """Raw measurements of the stored run with other seconds."""
    seconds = {**SECONDS, **{f"raw.{name.replace('__', '.')}": value for name, value in changes.items()}}
    found: TrainingRaw = rebuilt(stored("ensemble")[0], *(changed(*each) for each in seconds.items())).entry.raw
    return found


def phases(**seconds: float) -> Phases:
    """Phases with the given seconds, the others 0."""
    needed = {field.name: 0.0 for field in fields(Phases) if field.name in NEEDED}
    return Phases(**{**needed, **seconds})


NEEDED = (
    *("set_up", "residuals", "warm_up", "training", "data_wait", "exposed_communication"),
    *("replay", "validation", "ensemble", "profile"),
)


def test_shares_of_the_training_add_up_to_one() -> None:
    shares = training_shares(raw())
    found = (shares.compute, shares.exposed_communication, shares.data_wait, shares.idle)
    assert found == pytest.approx((0.6, 0.25, 0.1, 0.05))
    assert busy_spread(BUSY) == 0.5
    kinds = operator_shares(OperatorSeconds(**OPERATORS))
    assert [getattr(kinds, name) for name in KINDS] == [0.6, 0.2, 0.1, 0.1, 0.0]


def test_rounding_gives_no_rank_a_negative_idle_time() -> None:
    assert training_shares(raw(busy_seconds__mean=6.5 + 1e-12)).idle == 0.0


def test_every_second_counts_once_among_the_phases() -> None:
    first = {"start_up": 10.0, "staging": 1.0, "set_up": 2.0, "residuals": 1.0, "warm_up": 2.0}
    later = {"training": 5.0, "data_wait": 4.0, "exposed_communication": 1.0, "validation": 4.0, "profile": 1.0}
    shares = {"start_up": 0.2, "staging": 0.05, "set_up": 0.1, "residuals": 0.05, "warm_up": 0.1}
    shares |= {"training": 0.25, "validation": 0.2, "profile": 0.05}
    found = phase_shares(phases(**first, **later))
    assert {name: getattr(found, name) for name in shares} == shares
    assert sum(getattr(found, field.name) or 0.0 for field in fields(type(found))) == pytest.approx(1)
    assert phase_shares(phases(set_up=1.0, **later)).set_up == pytest.approx(1 / 11)
    assert phase_shares(phases(start_up=1.0, set_up=2.0, training=2.0)).start_up == 0.0


def test_shares_of_no_time_are_zero() -> None:
    assert operator_shares(OperatorSeconds(**dict.fromkeys(KINDS, 0.0))) is None
    assert busy_spread(BusySeconds(min=0.0, mean=0.0, max=0.0, slowest_rank=0, slowest_host="a")) == 0.0
    nothing = (changed(f"raw.operator_seconds.{kind}", 0.0) for kind in KINDS)
    assert "share of operators" not in training_block(rebuilt(stored("ensemble")[0], *nothing).entry, "")


@pytest.mark.parametrize("index", [0, 1])
def test_shares_of_a_real_run(index: int) -> None:
    test = live_run().result["tests"][index]
    raw, scores, ranks = test["raw"], test["scores"], test["p"] * test["q"]
    assert raw["step_seconds"]["count"] == raw["models"]["steps_max"] == (14 if test["q"] == 1 else 8)
    assert 0 < raw["step_seconds"]["median"] <= raw["step_seconds"]["p95"] < test["seconds"]
    assert 0 < raw["busy_seconds"]["min"] <= raw["busy_seconds"]["max"] <= test["seconds"]
    assert 0 <= raw["busy_seconds"]["slowest_rank"] < ranks == 2
    assert raw["busy_seconds"]["slowest_host"] == live_run().result["ranks"][0]["host"]
    assert (test["phases"]["exposed_communication"] > 0) == (test["q"] > 1)
    for shares in (scores["training_shares"], scores["phase_shares"], scores["operator_shares"]):
        known = [share for share in shares.values() if share is not None]
        assert sum(known) == pytest.approx(1, abs=1e-12)
        assert all(share >= 0 for share in known)
    assert scores["operator_shares"]["convolution"] > 0


def test_the_report_names_the_slowest_rank() -> None:
    for test in live_run().result["tests"]:
        busy = test["raw"]["busy_seconds"]
        said = f"\nSlowest : rank {busy['slowest_rank']} on {busy['slowest_host']}, busy for {busy['max']:.3f} of "
        assert said in live_run().job.stdout
    for _, lines in read_tests(live_run().job.stdout):
        shares = [float(value) for name, (value, _) in lines.items() if name.startswith(SHARES)]
        assert sum(shares) == pytest.approx(3, abs=1e-5)


def test_a_host_name_is_not_parsed_as_a_verdict() -> None:
    entry = rebuilt(stored("ensemble")[0], changed("raw.busy_seconds.slowest_host", "FAILED7")).entry
    assert "on Failed7," in training_block(entry, "")


@cache
def _stored() -> str:
    return json.dumps(live_run().result)


def altered() -> Json:
    """The live run's result, free to be altered."""
    return dict(json.loads(_stored()))


@pytest.mark.slow
def test_every_altered_second_is_detected(tmp_path: Path) -> None:
    assert not verified(altered(), tmp_path)
    for path, value in leaves(altered()):
        shares = ("phases", "phase_shares", "training_shares", "operator_shares", "busy_spread")
        if set(path) & {*MEASURED, *shares} and value is not None:
            other = value * (1 + 1e-7) + 1e-300 if isinstance(value, float) else value * 2 + type(value)(1)
            assert verified(renewed(put(altered(), path, other)), tmp_path), path


