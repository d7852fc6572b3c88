"""Repetitions: seeds of their own, the same data, and statistics over them."""

import os
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from msgspec.structs import replace
from small_run import bench, golden

from hpcai.errors import InputError
from hpcai.inputfile import parse
from hpcai.record.loading import result_of
from hpcai.record.result import Result, Spread
from hpcai.report.repetitions import table
from hpcai.results.repetitions import repeatability, repetitions, spread
from hpcai.results.summary import summarise
from hpcai.verification import verify

TEXT = "one\ntwo\n{seed} SEED\n{repeat} REPEAT\n[ensemble]\nfashion DATASET\n2 1 GROUPS\n1 2 DEGREE\n32 BATCH\n"


def cases(seed: int, repeat: int) -> list[Any]:
    return parse(TEXT.format(seed=seed, repeat=repeat)).cases(2)


def test_each_repetition_has_the_next_seed_and_the_data_of_all() -> None:
    made = cases(5, 3)
    assert [case.index for case in made] == [1, 2, 3, 4, 5, 6]
    assert [case["SEED"] for case in made] == [5, 6, 7] * 2
    assert [case["GROUPS"] for case in made] == [2, 2, 2, 1, 1, 1]
    assert {case.data_settings["SEED"] for case in made} == {5}
    last = cases(2**63 - 1, 2)
    assert [case["SEED"] for case in last[:2]] == [2**63 - 1, 0]
    assert {case.data_settings["SEED"] for case in last} == {2**63 - 1}


def test_repetitions_count_as_tests() -> None:
    sweep = TEXT.replace("32 BATCH", "{} BATCH".format(" ".join(map(str, range(2, 22)))))
    assert len(parse(sweep.format(seed=1, repeat=250)).cases(2)) == 10_000
    with pytest.raises(InputError, match=r"asks for 10040 tests; allowed: 10000"):
        parse(sweep.format(seed=1, repeat=251))


def test_the_spread_by_hand() -> None:
    assert spread([]) is None
    assert spread([2.0]) == Spread(count=1, mean=2.0, median=2.0, min=2.0, max=2.0, cv=None)
    found = spread([1.0, 2.0, 6.0])
    assert found == Spread(count=3, mean=3.0, median=2.0, min=1.0, max=6.0, cv=7**0.5 / 3)
    zeros = spread([0.0, 0.0])
    assert zeros and zeros.cv is None


def repeated(*, reached: bool = True) -> Result:
    """The stored result as if each of its tests had been run three times."""
    result = result_of(golden())
    tests: list[Any] = []
    for test in result.tests:
        for repetition, factor in enumerate((1.0, 3.0, 2.0)):
            epochs = repetition + 1 if reached and repetition < 2 else None
            changed = {"valid_flops": factor * test.scores.valid_flops, "flops": factor * 1e9}
            scores = replace(test.scores, epochs_to_quality=epochs, **changed)
            settings = {**test.settings, "SEED": 1 + repetition}
            tests.append(replace(test, index=len(tests) + 1, scores=scores, settings=settings))
    return replace(result, tests=tuple(tests))


def test_statistics_are_over_tests_that_differ_in_the_seed_alone() -> None:
    found = repeatability(repeated().tests)
    assert [entry.tests for entry in found] == [(1, 2, 3), (4, 5, 6)]
    assert found[0].spreads["flops"].cv == pytest.approx(stdev([1, 2, 3]) / 2)
    assert found[0].spreads["epochs_to_quality"].count == 2
    assert repeatability(result_of(golden()).tests) == ()
    assert [len(runs) for runs in repetitions(result_of(golden()).tests)] == [1, 1]


def test_the_same_case_twice_is_no_repetition() -> None:
    """Two sections can have the same case with the same seed: the second run neither spreads nor competes."""
    (first, second, third), others = repeated().tests[:3], repeated().tests[3:]
    twice = replace(second, settings=first.settings)
    assert repetitions([first, twice]) == [[first]] and repeatability([first, twice, *others[:1]]) == ()
    assert repetitions([first, twice, third, *others]) == [[first, third], [*others]]


def test_the_median_represents_all_repetitions() -> None:
    result = repeated()
    (best,) = summarise(result, 6).best
    (stored,) = (entry["index"] for entry in golden()["summary"]["best"])
    assert best.index == 3 * (stored - 1) + 3  # the factors are 1, 3 and 2


def test_the_table_shows_unreached_targets() -> None:
    result = repeated(reached=False)
    lines = list(table(result, repeatability(result.tests)))
    assert [line for line in lines if line.startswith("Rows")] == ["Rows 1-3:", "Rows 4-6:"]
    assert sum("not reached" in line for line in lines) == 2
    flops = [line.split() for line in lines if line.strip().startswith("FLOPS in GFLOP/s")]
    assert [words[-1] for words in flops] == ["50.0000"] * 2


@pytest.mark.exhaustive
def test_a_repeated_run_reports_its_statistics(tmp_path: Path) -> None:
    golden_input = Path(__file__).parent / "golden" / "input.dat"
    changes = ["REPEAT=2", "GROUPS=1", "DEGREE=1", "EPOCHS=1", "SAMPLES=96"]
    run = bench([str(golden_input), "--set", *changes], 1, {min(os.sched_getaffinity(0))})
    assert [test["settings"]["SEED"] for test in run.result["tests"]] == [1, 2]
    first, second = (test["raw"] for test in run.result["tests"])
    assert first["curve"][0]["loss"] != second["curve"][0]["loss"]
    assert first["dataset"]["fingerprint"] == second["dataset"]["fingerprint"]
    assert "Repetitions with different seeds" in run.job.stdout and "\nrepetitions=2\n" in run.job.stdout
    (entry,) = run.result["summary"]["repeatability"]
    rates = [test["scores"]["flops"] for test in run.result["tests"]]
    assert entry["spreads"]["flops"]["cv"] == pytest.approx(stdev(rates) / (sum(rates) / 2))
    assert list(verify.differences(run.folder / "result.json")) == []
