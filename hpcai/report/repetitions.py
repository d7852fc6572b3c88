"""Printed table of repetitions: spread of runs with different seeds."""

from collections.abc import Iterator, Sequence

from hpcai.machine.affinity import ranges
from hpcai.record.record import Field, Record, fields
from hpcai.record.result import Repeatability, Result, Spread

HEAD = f"{'':>40} {'runs':>6} {'mean':>16} {'median':>16} {'min':>16} {'max':>16} {'CV %':>10}"


def table(result: Result, repeatability: Sequence[Repeatability]) -> Iterator[str]:
    """Lines for each repeated test; none if no test was repeated."""
    if repeatability:
        yield "Repetitions with different seeds (CV: sample standard deviation / mean)"
    for entry in repeatability:
        scores: Record = next(test.scores for test in result.tests if test.index == entry.tests[0])
        declared = {field.name: field for field in fields(type(scores))}
        yield f"Rows {ranges(list(entry.tests))}:"
        yield HEAD
        yield from (_row(declared[name], spread) for name, spread in entry.spreads.items())
        yield ""


def _row(field: Field, spread: Spread | None) -> str:
    title = field.label or field.name
    if spread is None:
        return f"{title:>40} {'not reached':>23}"
    values = " ".join(f"{getattr(spread, name) / field.scale:16.7f}" for name in ("mean", "median", "min", "max"))
    variation = "n/a" if spread.cv is None else f"{100 * spread.cv:.4f}"
    return f"{title:>40} {spread.count:>6} {values} {variation:>10}"
