"""The end of the report, below the last row: repetitions, HPL's counts, summary section and status."""

from collections.abc import Iterator

from msgspec import structs

from hpcai.formulas import eligibility
from hpcai.record.record import fields
from hpcai.record.result import Best, Repeatability, Result, Resumption, RunCeilings, Summary
from hpcai.report import repetitions
from hpcai.report.text import DASHES, LINE, free, printed, with_reasons
from hpcai.results.lost_groups import lost_groups

END = "End of Tests."


def closing(result: Result) -> str:
    """The text below the last row; only a complete run gets the line `End of Tests.`."""
    summary = summary_of(result)
    lines = [
        LINE,
        "",
        *repetitions.table(result, summary.repeatability),
        f"Finished {summary.tests:6d} tests with the following results:",
        f"         {summary.passed:6d} tests completed and passed residual checks,",
        f"         {summary.failed:6d} tests completed and failed residual checks,",
        f"         {summary.skipped:6d} tests skipped because of illegal input values.",
        *(_resumed(each) for each in result.resumed),
        *(f"FAILED: {eligibility.UNVERIFIED.reasons[0]}: {free(difference)}" for difference in result.unverified),
        DASHES,
        "",
        *_summary(result, summary),
        "",
        with_reasons(f"Final Summary::HPCAI result is {summary.valid}", summary.reasons),
        "",
    ]
    return printed(lines) + (f"{END}\n{LINE}\n" if summary.complete else printed(_broken_off(result, summary)))


def _resumed(found: Resumption) -> str:
    differing = f", with other {free('; '.join(found.differing))}" if found.differing else ""
    return f"Resumed at {found.date} with test {found.test}{differing}"


def summary_of(result: Result) -> Summary:
    """The summary of a sealed result."""
    assert result.summary is not None, "a result without a summary is not printed"
    return result.summary


def _broken_off(result: Result, summary: Summary) -> Iterator[str]:
    """The end of an incomplete run; no line of it looks like a row."""
    test = result.broken_off
    if test and test.tv is None:
        yield f"Test {test.index} has no table, for the run ended first; [{test.workload}] is not checked"
    elif test and test.tv and test.raw:
        rate = "" if test.gflops is None else f": {test.gflops:.4f} GFLOP/s"
        lost = ", ".join(map(str, lost_groups(test)))
        yield (
            f"Test {test.index}, {test.tv.replace('W', 'w', 1)}, ended in its {test.raw.where}"
            f"{f', without group {lost}, which lost a rank' if lost else ''}: "
            f"{test.n} samples, {test.raw.steps} steps in {test.raw.seconds:.2f} s of training{rate}, "
            "not checked and not ranked"
        )
    cause = f" by {test.cause}" if test else ""
    yield f"BROKEN OFF after {summary.tests} of {summary.planned} tests{cause}."


def _summary(result: Result, summary: Summary) -> Iterator[str]:
    yield "Begin of Summary section."
    yield f"schema={result.schema}"
    yield f"version={result.version}"
    for name in ("level", "valid", "tests", "passed", "failed", "skipped"):
        yield f"{name}={getattr(summary, name)}"
    for place, best in enumerate(summary.best):
        yield from _best(best, "" if place == 0 else f"{best.workload}_")
    yield from _ceilings(summary.ceilings)
    for entry in summary.repeatability:
        if summary.best and summary.best[0].index in entry.tests:
            yield from _variation(entry)
    yield f"fingerprint={summary.fingerprint}"
    yield "End of Summary section."


def _best(best: Best, prefix: str) -> Iterator[str]:
    """The best row of a workload; all but the first with the workload's name in front."""
    for name, value in {**structs.asdict(best), **best.figures}.items():
        if name != "figures":
            yield f"{prefix}{name}={value:.7f}" if isinstance(value, float) else f"{prefix}{name}={value}"


def _ceilings(ceilings: RunCeilings) -> Iterator[str]:
    """The ceilings that were measured, in 10^9 per second."""
    for field in fields(RunCeilings):
        rate = getattr(ceilings, field.name)
        if rate is not None:
            unit = "gbytes" if field.unit == "B/s" else "gflops"
            name = "busbw" if field.name == "all_reduce_bus" else f"ceiling_{field.name}"
            yield f"{name}_{unit}={rate / 1e9:.7f}"


def _variation(entry: Repeatability) -> Iterator[str]:
    """How often the best row was run, and the coefficients of variation of its scores."""
    yield f"repetitions={len(entry.tests)}"
    for name, spread in entry.spreads.items():
        if spread is not None and spread.cv is not None:
            yield f"cv_percent_{name}={100 * spread.cv:.7f}"
