"""The printed lines of a test of `[toy]`, and its tables in series.h5."""

from collections.abc import Iterator

from hpcai.report import memory, telemetry
from hpcai.report.lines import labelled
from hpcai.report.rows import check_lines, head
from hpcai.report.series import Table
from hpcai.report.text import printed, with_reasons
from toy_workload.record import ToyRow


def block(entry: ToyRow) -> str:
    """One test."""
    lines = [
        *check_lines(entry),
        *labelled(entry.scores),
        *memory.lines(entry.memory),
        f"Points  : {sum(entry.raw.hits)} of {entry.raw.points} lie within the quarter circle",
        telemetry.note(entry.telemetry),
        with_reasons(f"Status  : {entry.status}", entry.reasons),
        "",
    ]
    return head(entry) + printed(lines)


def series(entry: ToyRow) -> Iterator[Table]:
    """The hits of each group."""
    yield "hits", ("group", "hits"), [(group, hits) for group, hits in enumerate(entry.raw.hits)]
