"""The plans of `--plan` and their printed form."""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from launch import BENCH, ROOT
from report_readers import LOOSE_ROW, ROW
from small_run import INPUT

from hpcai import estimate
from hpcai.data import catalog
from hpcai.errors import InputError
from hpcai.estimate import Rank, Rates
from hpcai.inputfile import Case, Problem, parse
from hpcai.machine import launcher
from hpcai.machine.memory import Limit
from hpcai.plan import machine, planner, step_rate
from hpcai.plan.planner import Plan, PlannedTest
from hpcai.plan.requirements import requirements
from hpcai.preflight import case_checks
from hpcai.report import plan
from hpcai.workloads.kernels.plan import kernels_memory

CPU = torch.device("cpu")
ENOUGH = Limit(2**50, "/a/file")
BASELINE = 400 * 2**20
RANK = Rank(threads=1, free=2**33)
TABLES = "one\ntwo\n[kernels]\nresnet8 64 SHAPES\n[comm]\n1K 1M SIZES\n"

DETECTOR = "one\ntwo\n[weather]\ngenerated DATASET\n48 RESOLUTION\n1 3 64 BATCH\n1 GROUPS\n1 DEGREE\n"
SEARCH = "one\ntwo\n[nas]\nfashion DATASET\n600 SAMPLES\n2 GROUPS\n1 DEGREE\n32 BATCH\n4 EPOCHS\n"


def problem(*options: str) -> Problem:
    return parse(INPUT.read_text(), options)


def plans(problem: Problem, ranks: int, limit: Limit = ENOUGH, crowd: float = 1.0) -> list[PlannedTest]:
    """The plan of each case on CPUs, in this process, whose threads are not changed."""
    cases = problem.cases(ranks)
    kept = {case.index: planner.bytes_after_tables(cases, case) for case in cases}
    return [planner.planned_test(case, CPU, BASELINE, limit, RANK, crowd, kept[case.index]) for case in cases]


def whole(tests: Sequence[PlannedTest], ranks: int, processors: int = 10**9) -> Plan:
    """The plan of all tests."""
    return Plan(ranks, ranks, processors, BASELINE, ENOUGH, tuple(tests))


def test_the_probe_of_time_uses_no_larger_batch_than_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[int] = []

    def probe(graph: Any, batch: int, *rest: Any) -> Rates:
        probed.append(batch)
        return Rates(training=1.0, validation=1.0, update=0.0)

    monkeypatch.setattr(step_rate, "probe", probe)
    monkeypatch.setattr(step_rate, "PROBED_OPERATIONS", 10**9)
    plans(parse(DETECTOR), 1)
    assert probed == [1, 3, 14]  # of 68,920,896 operations each


def test_the_plan_agrees_with_sums_by_hand() -> None:
    """200 samples: 7 steps of 32 on one rank, 4 of 32 on two."""
    first, second = plans(problem(), 2)
    assert (first.steps, second.steps) == (14, 8)
    for test in (first, second):
        assert test.nbytes == BASELINE + estimate.total(test.memory)
        assert test.seconds == sum(test.phases.values()) > 0
        assert not test.lack
    assert second.memory["buckets"] > first.memory["buckets"] == 0
    assert first.phases["training"] / second.phases["training"] == pytest.approx(14 / 8)
    assert first.phases["validation"] / second.phases["validation"] == pytest.approx(2)
    (data,) = {first.memory["data"], second.memory["data"]}
    dataset = catalog.open_for(problem().cases(2)[0].settings)
    assert data == (len(dataset.train) + len(dataset.validation)) * (28 * 28 + 8)


def test_ranks_that_share_processors_take_longer() -> None:
    alone, crowded = plans(problem(), 2), plans(problem(), 2, crowd=3.0)
    for phase in ("training", "replay", "validation", "ensemble"):
        assert crowded[0].phases[phase] == pytest.approx(3 * alone[0].phases[phase])
    text = plan.text("x", whole(crowded, 2, processors=1))
    assert "Warning: 2 ranks on 1 cores" in text and "Warning" not in plan.text("x", whole(alone, 2))


def test_zeros_of_the_grid_are_resolved_for_the_ranks() -> None:
    (test,) = plans(problem("GROUPS=0", "DEGREE=4"), 100_003)
    assert (test.case["GROUPS"], test.case["DEGREE"]) == (25_000, 4)
    row = plan.text("x", whole([test], 100_003)).splitlines()[3]
    assert row.split()[:6] == ["1", "32", "25000", "4", "3", "resnet8"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["SAMPLES=6001"], "test 1 cannot be run: 6001 training samples"),
        (["SAMPLES=2", "DEGREE=1,2"], "test 2 cannot be run: 2 training samples for 2 ranks"),
        (["GROUPS=3", "DEGREE=1"], "needs 3"),
    ],
)
def test_impossible_cases_are_refused(options: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        case_checks.check(problem(*options).cases(2), CPU)


def test_tests_beyond_the_memory_are_reported_with_numbers_and_not_timed() -> None:
    (enough, _) = plans(problem(), 2)
    least = Limit(enough.nbytes, "/a/file")
    assert not plans(problem(), 2, least)[0].lack
    (first, _) = plans(problem(), 2, Limit(enough.nbytes - 1, "/sys/fs/cgroup/job/memory.max"))
    assert first.lack.startswith(
        f"test 1 does not fit: a rank needs {enough.nbytes / 2**30:.3f} GiB (process 0.391"
    )
    assert "by /sys/fs/cgroup/job/memory.max; a smaller BATCH than 32 needs less" in first.lack
    assert first.phases == {} and not plan.fits(whole([first], 2))
    text = plan.text("x", whole([first], 2))
    assert first.lack in text and "does not fit" in text.splitlines()[3]
    with pytest.raises(InputError, match="test 1 does not fit.*test 2 does not fit"):
        planner.refuse(problem().cases(2), CPU, BASELINE, Limit(1, "/a/file"), RANK)
    planner.refuse(problem().cases(2), CPU, BASELINE, ENOUGH, RANK)


def test_the_printed_plan() -> None:
    settings = {"BATCH": 32, "GROUPS": 2, "DEGREE": 3, "NETWORK": "resnet50", "PRECISION": "bf16"}
    settings["KERNELS"] = "file:/a/very/long/path.py"
    memory = {"data": 2**20, "buckets": 0, "step": 3 * 2**20}
    phases = {"training": 6.0, "validation": 0.04}
    test = PlannedTest(Case(1, "ensemble", settings), 14, memory, 3 * 2**29, phases, "")
    lines = plan.text("my.dat", whole([test] * 2, 8)).splitlines()
    assert lines[0] == "my.dat: 2 tests, planned for 8 ranks; nothing was run"
    assert re.sub(" +", " ", lines[1]) == " Test NB P Q Idle ranks Network Precision Kernels Steps GiB per rank Seconds"
    assert lines[2] == "-" * len(lines[1]) == "-" * len(lines[3])
    assert lines[3].split() == ["1", "32", "2", "3", "2", "resnet50", "bf16", "file", "14", "1.500", "6.0"]
    assert lines[4].split()[0] == "2" and lines[5].split() == ["in", "all", "12.1"]
    blocks = lines[lines.index("Memory of a rank in MiB, test 1, 2:") + 1 :]
    assert [line.split()[:2] for line in blocks] == [
        ["400.0", "baseline:"],
        ["1.0", "data:"],
        ["3.0", "step:"],
        ["1536.0", "in"],
    ]
    assert all(len(line) <= 200 for line in lines)


def test_every_purpose_has_a_meaning() -> None:
    texts = TABLES.replace("64", "4096"), TABLES, SEARCH
    tests = [*plans(problem(), 2), *(test for text in texts for test in plans(parse(text), 2))]
    on_gpu = kernels_memory(parse(TABLES).cases(2)[0], Rank(1, 2**34, accelerated=True))
    tests.append(replace(plans(parse(TABLES), 2)[0], memory=on_gpu))
    found = {(test.case.workload, purpose) for test in tests for purpose in test.memory if purpose != "earlier tables"}
    assert any("earlier tables" in test.memory for test in tests) and {*planner.PURPOSES} == {"earlier tables"}
    declared = {(name, each) for name, _ in found for each in requirements(name).purposes}
    assert found == declared and {name for name, _ in found} == {"ensemble", "kernels", "comm", "nas"}


def test_tables_have_neither_network_nor_steps() -> None:
    tests = plans(parse(TABLES), 3)
    lines = plan.text("x", whole(tests, 3)).splitlines()
    assert lines[3].split()[:7] == ["1", "32", "-", "-", "-", "[kernels]", "-"]
    assert lines[4].split()[:7] == ["2", "-", "3", "1", "0", "[comm]", "-"]
    for test in tests:
        assert test.nbytes == BASELINE + sum(test.memory.values()) and test.seconds > 0


def test_memory_kept_after_tables_is_planned_for_later_tests() -> None:
    text = TABLES + "[ensemble]\nfashion DATASET\n1 GROUPS\n1 DEGREE\n32 BATCH\n"
    kept = [test.memory.get("earlier tables", 0) for test in plans(parse(text), 2)]
    assert kept == [0, *[planner.BYTES_AFTER_TABLES] * 2]
    after, alone = plans(parse(text), 2)[-1], plans(parse("one\ntwo\n" + text.partition("SIZES\n")[2]), 2)[-1]
    assert after.nbytes == alone.nbytes + planner.BYTES_AFTER_TABLES


@pytest.mark.parametrize(
    ("line", "cure"),
    [("[kernels]\n60000 SHAPES", "other SHAPES, or a smaller BATCH"), ("[comm]\n64G SIZES", "smaller SIZES")],
)
def test_tables_beyond_the_memory_are_refused(line: str, cure: str) -> None:
    asked = parse(f"one\ntwo\n[kernels]\n8 SHAPES\n{line}")
    with pytest.raises(InputError, match=f"test 2 does not fit: .* {cure}"):
        planner.refuse(asked.cases(2), CPU, BASELINE, Limit(2**33, "/a/file"), RANK)


def test_a_plan_has_no_line_like_a_result() -> None:
    text = plan.text("x", whole(plans(problem(), 2), 2))
    assert "WR" not in text and not LOOSE_ROW.search(text)
    assert not any(ROW.match(line) for line in text.splitlines())


@pytest.mark.slow
def test_mpi_is_measured_in_a_process_of_its_own_even_inside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of a launcher would make the process wait for other ranks."""
    program = "from hpcai.plan import planner; planner.MPI_BYTES = -1; print(planner.mpi_bytes())"
    monkeypatch.setenv("PMI_RANK", "3")
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("PMI_FD", "9")
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert 0 < int(found.stdout) < 256 * 2**20, found.stderr
    assert BENCH.is_file()


@pytest.mark.parametrize(
    ("ranks", "places", "most", "environment", "here"),
    [
        (2, 2, 8, {}, 2),
        (16, 2, 8, {}, 16),
        (17, 2, 8, {}, 2),
        (2, 4, 1, {}, 2),
        (5, 4, 1, {}, 4),
        (100_000, 4, 8, {}, 4),
        (100_000, 2, 8, {"MPI_LOCALNRANKS": "48"}, 48),
        (8, 2, 8, {"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
        (8, 2, 8, {"MPI_LOCALNRANKS": "many"}, 8),
    ],
)
def test_ranks_of_a_node_are_counted(
    ranks: int, places: int, most: int, environment: dict[str, str], here: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in launcher.LOCAL_SIZES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert machine.ranks_of_node(ranks, places, most) == here


def test_the_time_of_a_search_is_its_first_limit() -> None:
    def seconds(*limits: str) -> float:
        (test,) = plans(parse(SEARCH + "".join(f"{limit}\n" for limit in limits)), 2)
        return test.seconds

    assert seconds("50 DURATION") == 50 and seconds() == 3600
    one, four, five = (seconds("0 DURATION", f"{rounds} ROUNDS") for rounds in (1, 4, 5))
    assert one > 0 and four == pytest.approx(10 * one) and five == pytest.approx(14 * one)
    assert seconds("0 DURATION", "8 TRIALS") == pytest.approx(four)
    with pytest.raises(InputError, match="never ends; allowed: one of TRIALS, ROUNDS, DURATION, WINDOW above 0"):
        case_checks.check(parse(SEARCH + "0 DURATION\n").cases(2), CPU)
