"""Folders of results for the tests of the lists: stored ones, and others made by the program's own functions."""

from pathlib import Path
from zlib import crc32

from msgspec import structs
from result_with_tables import result_with_tables
from small_run import GOLDEN

from hpcai.inputfile import parse
from hpcai.ranking.__main__ import main
from hpcai.record.energy import Energy, Source
from hpcai.record.loading import load
from hpcai.record.problem import input_of
from hpcai.record.result import Result
from hpcai.report import files
from hpcai.verification import verify

HEADER = "HPCAI benchmark input file"


def of_site(header: str, changes: tuple[str, ...] = (), more: int = 0) -> Result:
    """The stored result, as a run with another first header line, set-up time, settings, and more right images."""
    stored = load(GOLDEN / "result.json")
    text = stored.input.text.replace(HEADER, header, 1)
    problem = parse(text, list(changes), name=stored.input.name)
    first, *others = stored.tests
    counts = first.raw.ensemble.recount
    counted = structs.replace(counts, correct=counts.correct + more)
    better = structs.replace(first.raw.ensemble, correct=first.raw.ensemble.correct + more, recount=counted)
    other = structs.replace(first.raw.phases, set_up=first.raw.phases.set_up + 1e-9 * crc32(header.encode()))
    first = structs.replace(first, raw=structs.replace(first.raw, ensemble=better, phases=other))
    return verify.rebuilt(structs.replace(stored, input=input_of(problem), tests=(first, *others)))


def with_power(result: Result, watts: float, source: Source = "meter") -> Result:
    """The result of a run in which a source measured so many watts of the node, for half a minute in each test."""
    counted = Energy(
        source=source, covers="node", nodes=1, begun="2026-01-01T00:00:00.000+00:00", seconds=30.0, joules=30.0 * watts
    )
    tests = [structs.replace(test, raw=structs.replace(test.raw, energy=counted)) for test in result.tests]
    return verify.rebuilt(structs.replace(result, tests=tuple(tests)))


def with_tables_of(speed: float) -> Result:
    """The stored result with made-up tables of kernels of so much of their speed."""
    made = result_with_tables()
    table, *others = made.tables
    rows = [structs.replace(row, seconds=row.seconds / speed) for row in table.raw.rows]
    table = structs.replace(table, raw=structs.replace(table.raw, rows=tuple(rows)))
    return verify.rebuilt(structs.replace(made, tables=(table, *others)))


def written(folder: Path, result: Result) -> Path:
    """The result's files in a new folder."""
    folder.mkdir(parents=True)
    files.write(folder, result)
    return folder


def report_only(folder: Path, result: Result) -> Path:
    """The printed output of a result alone."""
    folder.mkdir(parents=True)
    (folder / "report.txt").write_text(files.report(result), "utf-8")
    return folder / "report.txt"


def listed(*arguments: object) -> int:
    """The exit code of the command."""
    return main([str(word) for word in arguments])
