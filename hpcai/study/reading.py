"""Tests and tables of results for a figure: each result is verified, and all must belong together."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcai.errors import InputError
from hpcai.record.entry import Row, Table
from hpcai.record.result import Result
from hpcai.results.comparable import facts_of
from hpcai.study.figure import FigureOfTests, KernelTable
from hpcai.verification.verified import verified_once

MACHINE = ("processor", "device", "python", "packages")


def read(paths: Sequence[Path], figure: FigureOfTests) -> tuple[list[Row], list[KernelTable]]:
    """PASSED tests of verified results that a figure takes, and the tables of products of all these results.

    InputError if there is no test, if tests or machines do not agree, or if there are results where none is needed.
    """
    if not figure.of_results:
        if paths:
            raise InputError(f"this table is made without results, but {paths[0]} is given; allowed: none")
        return [], []
    if not paths:
        raise InputError("this figure is drawn from results, but none is given; allowed: result.json or its folder")
    results = verified_once(paths)
    tests = tests_of(results, figure)
    if figure.of_tables:
        _tables_agree([result for _, result in results], figure.varied or ())
    return tests, [table for _, result in results for table in tables_of(result)]


def tests_of(results: Sequence[tuple[Path, Result]], figure: FigureOfTests) -> list[Row]:
    """The PASSED tests that a figure takes; InputError if there is none or they do not agree."""
    found = [test for _, result in results for test in result.tests if _counts(test, figure)]
    if not found:
        names = ", ".join(str(path) for path, _ in results)
        raise InputError(f"no test of {names} belongs to this figure; allowed: PASSED tests of it")
    if figure.varied is not None:
        agree([result for _, result in results], found, figure)
    return found


def tables_of(result: Result) -> Iterator[KernelTable]:
    """The tables of products that PASSED."""
    for table in result.tables:
        rows = tuple(row for row in result.kernels if row.test == table.index)
        if rows and table.verdict == "PASSED":
            yield KernelTable(table.raw.ranks, rows)


def _counts(test: Row, figure: FigureOfTests) -> bool:
    return test.verdict == "PASSED" and figure.takes(test)


def agree(results: Sequence[Result], tests: Sequence[Row], figure: FigureOfTests) -> None:
    """InputError that names the first fact in which tests of a family, or machines, differ."""
    varied = figure.varied or ()
    first: dict[str, dict[str, object]] = {}
    for test in tests:
        expected = first.setdefault(figure.family(test), dict(facts_of(test, varied)))
        for name, value in facts_of(test, varied):
            if expected.get(name) != value:
                raise _different(name, expected.get(name), value, varied)
    machines = [_machine(result) for result in results]
    for machine in machines[1:]:
        for name, value in machine.items():
            if value != machines[0][name]:
                raise _different(f"{name} of the machine", machines[0][name], value, varied)


def _machine(result: Result) -> dict[str, object]:
    """What the ranks of a result compute with, by name."""
    threads = sorted({rank.threads for rank in result.ranks if rank.device == "cpu"})  # GPUs compute without them
    return {**{name: getattr(result.environment, name) for name in MACHINE}, "threads of ranks": threads}


def _tables_agree(results: Sequence[Result], varied: Sequence[str]) -> None:
    """InputError that names the first KEY in which tables of products differ."""
    tables = [table for result in results for table in result.tables if _has_products(result, table)]
    for table in tables[1:]:
        expected = dict(facts_of(tables[0], varied))
        for name, value in facts_of(table, varied):
            if expected.get(name) != value:
                raise _different(f"{name} of tables", expected.get(name), value, varied)


def _has_products(result: Result, table: Table) -> bool:
    return any(row.test == table.index for row in result.kernels)


def _different(name: str, one: object, other: object, varied: Sequence[str]) -> InputError:
    allowed = ", ".join(varied)
    return InputError(f"tests do not belong together: {name} is {one} and {other}; allowed to differ: {allowed}")
