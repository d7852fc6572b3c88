"""A search in which the run was broken off: its report and claims, and detected alterations."""

from pathlib import Path
from typing import Any

import pytest
from alterations import Where, put, verified
from msgspec import convert
from msgspec.structs import replace
from report_readers import assert_parsers_read_it
from small_run import cases_of, rebuilt
from synthetic_search import entry_of_search, searched
from trial_records import loaded

from hpcai.record.loading import result_of
from hpcai.record.plain import plain
from hpcai.record.sample_loading import Loading
from hpcai.report import files
from hpcai.results import assembly
from hpcai.workloads.nas.record import SearchMeasured, StoppedSearch

Json = dict[str, Any]

CAUSE = "SIGTERM on rank 1"


def stopped(trials: int) -> StoppedSearch:
    """Measurements of the made-up search, if the run had been broken off after some of its trials."""
    raw = entry_of_search().raw
    found = StoppedSearch(**{name: getattr(raw, name) for name in SearchMeasured.__struct_fields__})
    first = raw.trials[:trials]
    work = replace(
        raw.work,
        steps=sum(trial.steps for trial in first),
        executed_operations=sum(trial.executed_operations for trial in first),
        samples=sum(trial.samples for trial in first),
    )
    seconds = max((trial.returned for trial in first), default=0.0)
    loading = convert(loaded([plain(trial) for trial in first], plain(raw.dataset)), Loading)
    return replace(found, trials=first, granted=trials, seconds=seconds, work=work, loading=loading)


def broken_off(raw: StoppedSearch | None) -> Json:
    """A result whose only search was broken off."""
    whole = searched()
    found = assembly.broken_off(cases_of(whole)[0], CAUSE, raw)
    return rebuilt({**whole, "tests": [], "broken_off": plain(found)})


@pytest.mark.parametrize("trials", [0, 1, 4])
def test_a_broken_off_search_is_verified_and_reported(trials: int, tmp_path: Path) -> None:
    result = broken_off(stopped(trials))
    assert verified(result, tmp_path) == []
    report = files.report(result_of(result))
    assert_parsers_read_it(report, result)
    assert result["summary"]["valid"] == "INVALID" and result["summary"]["best"] == []
    (line,) = [line for line in report.splitlines() if line.startswith("Test 1, wR30S1V4, ended in its search: ")]
    found = result["broken_off"]
    assert f" {found['n']} samples, {found['raw']['work']['steps']} steps in {found['raw']['seconds']:.2f} s" in line
    assert (found["gflops"] is None) == (trials == 0)


def test_the_rate_counts_the_operations_of_the_trials_networks() -> None:
    found = broken_off(stopped(4))["broken_off"]
    executed = found["raw"]["work"]["executed_operations"]
    assert found["gflops"] * 1e9 * found["raw"]["seconds"] == pytest.approx(executed)


@pytest.mark.parametrize(
    ("place", "value", "claim"),
    [
        (("work", "samples"), 1, "work.samples = those of the trials"),
        (("work", "skipped_samples"), 1, "work.skipped_samples = those of the trials"),
        (("work", "executed_operations"), 1, "work.executed_operations = those of the trials"),
        (("work", "steps"), 1, "work.steps = those of the trials"),
        (("seconds",), 1.0, "seconds until the last trial"),
        (("trials", 2, "round"), 3, "trials: numbers by group and round"),
        (("trials", 0, "planned_epochs"), 2, "trials: planned_epochs by EPOCHS and round"),
        (("trials", 2, "operation"), "skip", "trials: operation of the first morphism"),
        (("dataset", "training_samples"), 100, "training_samples = SAMPLES"),
    ],
)
def test_each_claim_can_be_violated(place: Where, value: Any, claim: str, tmp_path: Path) -> None:
    result = rebuilt(put(broken_off(stopped(4)), ("broken_off", "raw", *place), value))
    assert f"broken_off: {claim}" in verified(result, tmp_path)


def test_a_search_broken_off_before_its_begin_is_verified(tmp_path: Path) -> None:
    result = broken_off(None)
    found = result["broken_off"]
    assert (found["tv"], found["n"], found["gflops"], found["raw"]) == ("WR30S1V4", 0, None, None)
    assert verified(result, tmp_path) == []
