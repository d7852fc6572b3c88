"""Printed checks of a table's times; in a form that parsers do not take for checks of the row above."""

from collections.abc import Iterator, Sequence

from hpcai.formulas.clocks import CallTime
from hpcai.record.entry import Table
from hpcai.results.entry import clock_checks
from hpcai.results.table import call_checks


def clock_lines(table: Table, times: Sequence[CallTime]) -> Iterator[str]:
    """A line for each check of the times of a table and of its rows."""
    for check in (*clock_checks(table.wall), *call_checks(times)):
        yield f"  {check.name}: {check.value:.4f}, at most {check.limit:g} ...... {check.verdict}"
