"""Metrics of a result that an acceptance compares: those of its tests, and the ceilings of its tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median

from hpcai.errors import InputError
from hpcai.record.entry import Entry, Row, Table, scores_of
from hpcai.record.record import Record, fields
from hpcai.record.result import Result, RunCeilings
from hpcai.report.closing import summary_of
from hpcai.results.cells import cell
from hpcai.results.comparable import facts_of
from hpcai.workloads import registry

TESTS, CEILINGS = "tests", "ceilings"  # groups of metrics
PASSED, FAILED, NOT_CHECKED = "PASSED", "FAILED", "NOT CHECKED"
CHECKS_FAILED = "a check is FAILED"
OF_ROW = ("seconds", "gflops")
FREE = ("SEED", "REPEAT")  # KEYs that may differ
MUST_AGREE = ("processor", "device", "accelerators", "nodes", "ranks")


@dataclass(frozen=True)
class Part:
    """The metrics of tests with the same settings and data, of a table, or of the ceilings of all tables.

    failed: why it cannot be accepted. smaller: metrics of which smaller values are better.
    """

    group: str
    name: str
    values: dict[str, float]
    failed: str = ""
    smaller: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measured:
    """What a verified result measured: parts by a digest of their settings and data."""

    path: str
    fingerprint: str
    host: str
    machine: dict[str, object]
    software: dict[str, str]
    parts: dict[str, Part]


def names(group: str) -> list[str]:
    """All metrics of a group."""
    if group == CEILINGS:
        return [field.name for field in fields(RunCeilings)]
    rows = [registry.part(workload.name, "record").ENTRY for workload in registry.workloads() if workload.digit]
    scores = [name for row in rows for name in _columns(scores_of(row))]
    return [*dict.fromkeys([*OF_ROW, *scores])]


def measured(path: Path, result: Result) -> Measured:
    """The metrics of a verified result; of repetitions the medians. InputError if its run was broken off."""
    environment, summary = result.environment, summary_of(result)
    if not summary.complete:
        raise InputError(f"broken off after {summary.tests} of {summary.planned} tests")
    found = {"version": result.version, "mpi": environment.mpi, "kernel": environment.system}
    return Measured(
        path=str(path),
        fingerprint=summary.fingerprint,
        host=_host(result),
        machine={name: getattr(environment, name) for name in MUST_AGREE},
        software={**found, "python": environment.python, **environment.packages},
        parts={**_tests(result), **_tables(result.tables), **_ceilings(result.tables, summary.ceilings)},
    )


def differing(one: Mapping[str, object], other: Mapping[str, object]) -> str:
    """The first fact of the machine in which a result differs from the baseline; empty if there is none."""
    names = (name for name in MUST_AGREE if one[name] != other[name])
    return next((f"{name} is {one[name]}, of the baseline {other[name]}" for name in names), "")


def _host(result: Result) -> str:
    hosts = [*dict.fromkeys(rank.host for rank in result.ranks)]
    return cell(", ".join(hosts[:2]) + ", ..." * (len(hosts) > 2))


def _tests(result: Result) -> dict[str, Part]:
    grouped: dict[str, list[Row]] = {}
    for test in result.tests:
        grouped.setdefault(_identity(test), []).append(test)
    return {identity: _part(tests) for identity, tests in grouped.items()}


def _identity(*entries: Entry) -> str:
    """A digest of all that must agree for tests or tables to be compared."""
    facts = [sorted(facts_of(entry, FREE), key=repr) for entry in entries]
    return sha256(repr(facts).encode()).hexdigest()


def _part(tests: Sequence[Row]) -> Part:
    first = tests[0]
    samples = [dict(_values(test)) for test in tests]
    known = dict.fromkeys(name for values in samples for name in values)
    values = {name: median(each[name] for each in samples if name in each) for name in known}
    failed = any(test.verdict != PASSED for test in tests)
    smaller = () if registry.quality_of(first.workload).larger_is_better else ("quality",)
    return Part(TESTS, f"{first.index} {first.tv} {first.p} x {first.q}", values, CHECKS_FAILED * failed, smaller)


def _values(test: Row) -> Iterator[tuple[str, float]]:
    yield from ((name, getattr(test, name)) for name in OF_ROW)
    yield from _known(test.scores, _columns(type(test.scores)))


def _tables(tables: Sequence[Table]) -> dict[str, Part]:
    """A part without metrics for each table, so that one that FAILED or is missing is found."""
    named = {_identity(table): f"{table.index} [{table.workload}]" for table in tables}
    failed = {_identity(table) for table in tables if table.verdict != PASSED}
    return {identity: Part(TESTS, name, {}, CHECKS_FAILED * (identity in failed)) for identity, name in named.items()}


def _ceilings(tables: Sequence[Table], ceilings: RunCeilings) -> dict[str, Part]:
    values = dict(_known(ceilings, names(CEILINGS)))
    return {f"{CEILINGS} {_identity(*tables)}": Part(CEILINGS, "ceilings of a rank", values)} if values else {}


def _columns(kind: type[Record]) -> list[str]:
    """The scores that result.csv has."""
    return [field.name for field in fields(kind) if field.csv]


def _known(record: Record, columns: Sequence[str]) -> Iterator[tuple[str, float]]:
    yield from ((name, value) for name in columns if (value := getattr(record, name)) is not None)
