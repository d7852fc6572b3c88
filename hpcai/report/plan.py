"""The output of `--plan`: memory per rank by purpose, and time, of each test of an input.

Its lines are no results, and no parser of results takes them for some: between the integers and the decimals stands a
word, and T/V is left out.
"""

from collections.abc import Iterator, Sequence

from hpcai.inputfile import Case
from hpcai.plan.planner import PURPOSES, Plan, PlannedTest
from hpcai.plan.requirements import requirements
from hpcai.report.text import counted
from hpcai.workloads import registry

MIB, GIB = 2**20, 2**30
HEADER = (
    f"{'Test':>5} {'NB':>6} {'P':>6} {'Q':>6} {'Idle ranks':>11}  {'Network':<11} {'Precision':<9} {'Kernels':<7} "
    f"{'Steps':>9} {'GiB per rank':>13} {'Seconds':>12}"
)
LACKING, NONE = "does not fit", "-"
EXPLANATION = (
    "GiB per rank: most at any moment, process and libraries (the baseline) included; on a GPU, of its own memory.",
    "Seconds: from steps timed on this machine, start-up excepted; where several ranks train a model also what sums of",
    "gradients take longer than the backward pass, without latencies.",
)


def text(name: str, planned: Plan) -> str:
    """The plan as it is printed."""
    return "\n".join(_lines(name, planned))


def fits(planned: Plan) -> bool:
    """Whether every test of the plan fits into memory."""
    return not any(test.lack for test in planned.tests)


def _lines(name: str, planned: Plan) -> Iterator[str]:
    tests, ranks = planned.tests, planned.ranks
    yield f"{name}: {counted(len(tests), 'test')}, planned for {counted(ranks, 'rank')}; nothing was run"
    yield HEADER
    yield "-" * len(HEADER)
    for index, test in enumerate(tests, start=1):
        yield _row(index, test, ranks)
    phases = [phase for test in tests for phase in test.phases.values()]
    whole = LACKING if any(test.lack for test in tests) else _seconds(phases)
    yield f"{'in all':<8} {whole:>{len(HEADER) - 9}}"
    yield from EXPLANATION
    *untrained, last = [f"[{each.name}]" for each in registry.workloads() if not each.trains]
    yield f"Tests of {', '.join(untrained)} and {last} have no network: their seconds are about what measuring takes."
    here = planned.node_ranks
    yield from planned.notes
    if here > planned.processors:
        yield f"Warning: {here} ranks on {planned.processors} cores: each test takes so much longer"
    yield f"A rank may use {planned.limit.nbytes / GIB:.3f} GiB, by {planned.limit.source}"
    yield from _by_purpose(tests, planned.baseline)
    yield from (test.lack for test in tests if test.lack)


def _row(index: int, test: PlannedTest, ranks: int) -> str:
    settings = test.case.settings
    batch, groups, degree = (settings.get(name, NONE) for name in ("BATCH", "GROUPS", "DEGREE"))
    idle = NONE if groups == NONE else ranks - test.case.groups * test.case.degree
    steps = NONE if test.steps is None else test.steps
    seconds = LACKING if test.lack else _seconds([*test.phases.values()])
    network, precision, kernels = _trained(test.case)
    return (
        f"{index:>5} {batch:>6} {groups:>6} {degree:>6} {idle:>11}  "
        f"{network:<11} {precision:<9} {kernels:<7} {steps:>9} {test.nbytes / GIB:>13.3f} {seconds:>12}"
    )


def _seconds(phases: Sequence[float]) -> str:
    """Their sum; of tests that cannot be timed here nothing."""
    return f"{sum(phases):.1f}" if phases else NONE


def _trained(case: Case) -> tuple[str, str, str]:
    """Network, precision and provider; of tests that do not train only the section."""
    if "NETWORK" not in case.settings:
        return f"[{case.workload}]", NONE, NONE
    return case.network, case.precision, case.kernels.partition(":")[0]


def _by_purpose(tests: Sequence[PlannedTest], baseline: int) -> Iterator[str]:
    """Memory by purpose, once for all tests with the same memory."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for index, test in enumerate(tests, start=1):
        alike.setdefault(tuple(test.memory.items()), []).append(index)
    for memory, numbers in alike.items():
        meanings = {**requirements(tests[numbers[0] - 1].case.workload).purposes, **PURPOSES}
        yield f"Memory of a rank in MiB, test {_listed(numbers)}:"
        yield f"{baseline / MIB:>12.1f}  baseline: process and libraries, before any data or network"
        for purpose, nbytes in memory:
            if nbytes:
                yield f"{nbytes / MIB:>12.1f}  {purpose}: {meanings[purpose]}"
        yield f"{tests[numbers[0] - 1].nbytes / MIB:>12.1f}  in all: most at once, for some take turns"


def _listed(numbers: list[int], most: int = 10) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"
