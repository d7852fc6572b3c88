"""Summary of a result: counts, status, best row of each workload, digests."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import convert, structs

from hpcai.formulas import eligibility
from hpcai.record.entry import Row
from hpcai.record.plain import checked, digest
from hpcai.record.record import Level
from hpcai.record.result import Best, Result, RunCeilings, Summary
from hpcai.results.repetitions import repeatability, repetitions
from hpcai.workloads import registry
from hpcai.workloads.comm.record import CollectiveRow
from hpcai.workloads.kernels.record import KernelsTable
from hpcai.workloads.workload import Workload

ALL_REDUCE = "all_reduce"


def sealed(result: Result, planned: int) -> Result:
    """The result with its summary and digest; `planned` is the number of tests in the input."""
    bare = structs.replace(result, summary=None, digest=None)
    whole = structs.replace(bare, summary=checked(summarise(bare, planned)))
    return structs.replace(whole, digest=digest(whole))


def summarise(result: Result, planned: int) -> Summary:
    """The summary of a result whose other parts are complete."""
    ended = [*result.tests, *result.tables]
    passed = sum(entry.verdict == "PASSED" for entry in ended)
    overall = eligibility.worst(_statuses(result, len(ended), planned))
    return Summary(
        complete=len(ended) == planned,
        planned=planned,
        tests=len(ended),
        passed=passed,
        failed=len(ended) - passed,
        skipped=0,
        valid=overall.status,
        reasons=tuple(overall.reasons),
        best=tuple(best_rows([test for test in result.tests if test.verdict == "PASSED"] or result.tests)),
        ceilings=run_ceilings(result),
        repeatability=repeatability(result.tests),
        level=convert(result.input.run["LEVEL"].value, Level),
        fingerprint=digest(result, ("summary", "digest")),
    )


def _statuses(result: Result, ended: int, planned: int) -> Iterator[eligibility.Eligibility]:
    """Eligibility of all tests and tables, and of the run."""
    yield from (eligibility.Eligibility(test.status, test.reasons) for test in result.tests)
    yield from (eligibility.table(table.verdict == "PASSED") for table in result.tables)
    if ended < planned:
        yield eligibility.Eligibility(eligibility.INVALID, (f"run broken off after {ended} of {planned} tests",))
    elif not result.tests:
        yield eligibility.NOTHING
    if result.unverified:
        yield eligibility.UNVERIFIED


def best_rows(tests: Sequence[Row]) -> Iterator[Best]:
    """The best row of each workload with rows, in the order of the registry; the first one ranks the result."""
    for workload in registry.workloads():
        own = [test for test in tests if test.workload == workload.name]
        if own:
            yield _best(best_test(own, ranking_score(workload)))


def best_test(tests: Sequence[Row], by: Callable[[Row], float]) -> Row:
    """The test with the best score; for repetitions stands the one with the median score, of two the worse."""
    return max((sorted(runs, key=by)[(len(runs) - 1) // 2] for runs in repetitions(tests)), key=by)


def ranking_score(workload: Workload) -> Callable[[Row], float]:
    """What orders the tests of a workload: larger is better."""
    return lambda test: workload.rank(float(getattr(test.scores, workload.ranked_by)))


def _best(test: Row) -> Best:
    figures = registry.workload(test.workload).figures
    return Best(
        workload=test.workload,
        index=test.index,
        gflops=test.gflops,
        figures={figure.name: getattr(test.scores, figure.score) / figure.scale for figure in figures},
        quality=test.scores.quality,
        target=test.scores.target,
        P=test.p,
        Q=test.q,
        time=test.seconds,
    )


def run_ceilings(result: Result) -> RunCeilings:
    """The highest ceilings of a rank in tables that PASSED."""
    passed = [table for table in result.tables if table.verdict == "PASSED"]
    tables = [table.ceilings for table in passed if isinstance(table, KernelsTable)]
    numbers = [table.index for table in passed]
    names = [name for name in RunCeilings.__struct_fields__ if name != "all_reduce_bus"]
    highest = {name: _highest([getattr(ceilings, name) for ceilings in tables]) for name in names}
    bus = [row.busbw for row in result.collectives if _counts(row, numbers)]
    return RunCeilings(**highest, all_reduce_bus=_highest(bus))


def _counts(row: CollectiveRow, tables: Sequence[int]) -> bool:
    return row.test in tables and row.collective == ALL_REDUCE


def _highest(rates: Sequence[float | None]) -> float | None:
    return max((rate for rate in rates if rate is not None), default=None)
