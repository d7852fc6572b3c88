"""A search that ended early: what is told of it, what is claimed of it, and that altered claims are found."""

from pathlib import Path
from typing import Any

import pytest
from alterations import put, verified
from report_readers import assert_parsers_read_it
from small_run import cases_of, rebuilt
from synthetic_search import result_of, searched

from hpcai import result as results
from hpcai.inputfile import from_dict
from hpcai.report import files

Json = dict[str, Any]

CAUSE = "SIGTERM on rank 1"
LEFT_OUT = ("backend", "memory")  # of what ended early


def broken(trials: int = 4) -> Json:
    """A result whose only search was ended after some trials."""
    whole = searched()
    raw = {name: value for name, value in whole["tests"][0]["raw"].items() if name not in LEFT_OUT}
    raw |= {"where": "search", "ended_by": "", "trials": raw["trials"][:trials], "granted": trials}
    raw["seconds"] = max((trial["returned"] for trial in raw["trials"]), default=0.0)
    for name in ("steps", "executed_operations"):
        raw[name] = sum(trial[name] for trial in raw["trials"])
    raw["samples"] = sum(entry["samples"] for trial in raw["trials"] for entry in trial["curve"])
    made = {**result_of(from_dict(whole["input"]), []), "broken_off": None}
    made["broken_off"] = results.broken_off(cases_of(whole)[0], CAUSE, raw)
    return rebuilt(made)


@pytest.mark.parametrize("trials", [0, 1, 4])
def test_it_is_verified_and_told(trials: int, tmp_path: Path) -> None:
    result = broken(trials)
    assert verified(result, tmp_path) == []
    report = files.report(result)
    assert_parsers_read_it(report, result)
    assert result["summary"]["valid"] == "INVALID" and result["summary"]["best"] is None
    (told,) = [line for line in report.splitlines() if line.startswith("Test 1, wR30S1V4, ended in its search: ")]
    found = result["broken_off"]
    assert f" {found['n']} samples, {found['raw']['steps']} steps in {found['raw']['seconds']:.2f} s" in told
    assert (found["gflops"] is None) == (trials == 0)


def test_operations_are_those_of_the_trials_networks() -> None:
    found = broken()["broken_off"]
    assert found["gflops"] * 1e9 * found["raw"]["seconds"] == pytest.approx(found["raw"]["executed_operations"])


@pytest.mark.parametrize(
    ("place", "value", "claim"),
    [
        (("samples",), 1, "broken_off: samples = those of the trials"),
        (("skipped_samples",), 1, "broken_off: skipped_samples = those of the trials"),
        (("executed_operations",), 1, "broken_off: executed_operations = those of the trials"),
        (("steps",), 1, "broken_off: steps = those of the trials"),
        (("seconds",), 1.0, "broken_off: seconds until the last trial"),
        (("trials", 2, "round"), 3, "broken_off: trials: ids by group and round"),
        (("trials", 0, "planned_epochs"), 2, "broken_off: trial 1: planned_epochs: by EPOCHS and round"),
        (("trials", 2, "operation"), "skip", "broken_off: trial 3: operation: of its first morphism"),
        (("dataset", "training_samples"), 100, "training_samples = SAMPLES"),
    ],
)
def test_each_claim_can_be_broken(place: tuple[Any, ...], value: Any, claim: str, tmp_path: Path) -> None:
    result = put(broken(), ("broken_off", "raw", *place), value)
    assert claim in verified(remade(result), tmp_path)


def remade(result: Json) -> Json:
    """All that follows from what was measured made anew."""
    found = result["broken_off"]
    result["broken_off"] = results.broken_off(cases_of(result)[0], found["cause"], found["raw"])
    return rebuilt(result)


def test_a_search_that_had_not_begun() -> None:
    whole = searched()
    found = results.broken_off(cases_of(whole)[0], CAUSE, None)
    assert (found["tv"], found["n"], found["gflops"], found["raw"]) == ("WR30S1V4", 0, None, None)
