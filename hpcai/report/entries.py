"""Printed block of each test, and the lines of its CSV files."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from hpcai.inputfile import Case
from hpcai.record.entry import Entry, Row, Table
from hpcai.record.record import Record, fields
from hpcai.record.result import Result
from hpcai.report import memory, telemetry
from hpcai.report.text import layer_line, printed
from hpcai.results.assembly import ended, rows_of
from hpcai.results.cells import cell, machine_name, spreadsheet_safe, system_name
from hpcai.results.layers import of_test
from hpcai.workloads import registry

# Columns of result.csv, in the order in which they stand; those of the machine, settings
# and scores that are declared as columns follow.
ROW = ("index", "tv", "workload", "n", "nb", "p", "q", "seconds", "gflops", "verdict", "status")
SETTINGS = ("LEVEL", "DATASET", "NETWORK", "VARIANT", "EPOCHS", "PRECISION", "SEED")


def block(result: Result, entry: Entry) -> str:
    """Printed block of a test: HPL's row with its lines, or a table."""
    lines = registry.part(entry.workload, "lines")
    if not isinstance(entry, Table):
        return str(lines.block(entry)) + printed([*_layers(result, entry), ""])
    seen = entry.telemetry
    notes = [*memory.lines(entry.memory), *memory.notes(entry.memory), telemetry.note(seen)]
    notes += [*telemetry.traffic_note(seen), ""]
    return str(lines.block(entry, rows_of(result, entry))) + printed(notes)


def _layers(result: Result, test: Entry) -> Iterator[str]:
    """The layers that depend on the KEYs of a test; the others are in the head of the report."""
    case = Case(test.index, test.workload, test.settings)
    return map(layer_line, of_test(case, result.environment, result.version))


def blocks(result: Result) -> Iterator[str]:
    """Printed blocks of all tests, in the order in which they ended."""
    return (block(result, entry) for entry in ended(result))


def result_csv(result: Result) -> str:
    """One line per test: columns of its row, machine, some settings and scores; missing values are empty."""
    lines = [_cells(test, _machine(result)) for test in result.tests]
    return comma_separated(list(dict.fromkeys(name for line in lines for name in line)), lines) if lines else ""


def _machine(result: Result) -> dict[str, object]:
    """Where and when the tests ran, and by which version."""
    environment = result.environment
    return {
        "site": spreadsheet_safe(cell(result.input.headers[0])),
        "system": spreadsheet_safe(system_name(result)),
        "machine": spreadsheet_safe(machine_name(environment)),
        "date": result.date,
        "version": result.version,
        "ranks": environment.ranks,
        "nodes": environment.nodes,
    }


def _cells(test: Row, machine: dict[str, object]) -> dict[str, object]:
    row = {name: getattr(test, name) for name in ROW}
    settings = {key.lower(): test.settings.get(key) for key in SETTINGS}
    kind: type[Record] = type(test.scores)
    scores = {field.name: getattr(test.scores, field.name) for field in fields(kind) if field.csv}
    return row | machine | settings | scores


def rows_csv(rows: Sequence[Record]) -> str:
    """One line per row of a table, the number of its test and its other fields by name; empty without a table."""
    return comma_separated(["test", *_others(rows[0])], map(structs.asdict, rows)) if rows else ""


def _others(row: Record) -> list[str]:
    return [name for name in row.__struct_fields__ if name != "test"]


def comma_separated(columns: Sequence[str], lines: Iterable[Mapping[str, object]]) -> str:
    """Lines of comma-separated cells by column; a missing cell is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()
