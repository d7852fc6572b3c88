"""Metrics of a result that an acceptance compares: those of its tests, and the ceilings of its tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median

from hpcai.record.entry import Row, scores_of
from hpcai.record.record import Record, fields
from hpcai.record.result import Result, RunCeilings
from hpcai.report.closing import summary_of
from hpcai.results.cells import cell
from hpcai.results.comparable import facts_of
from hpcai.workloads import registry

TESTS, CEILINGS = "tests", "ceilings"  # groups of metrics
PASSED, CHECKS_FAILED = "PASSED", "a check is FAILED"
OF_ROW = ("seconds", "gflops")
FREE = ("SEED", "REPEAT")  # KEYs that may differ
MUST_AGREE = ("processor", "device", "accelerators", "nodes", "ranks")


@dataclass(frozen=True)
class Part:
    """The metrics of tests with the same settings and data, or of the ceilings. failed: why it cannot be accepted."""

    group: str
    name: str
    values: dict[str, float]
    failed: str = ""


@dataclass(frozen=True)
class Measured:
    """What a verified result measured: parts by a digest of their settings and data. Facts are of the machine."""

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
    """The metrics of a verified result; of repetitions the medians."""
    environment, summary = result.environment, summary_of(result)
    found = {"version": result.version, "mpi": environment.mpi, "kernel": environment.system}
    return Measured(
        path=cell(path),
        fingerprint=summary.fingerprint,
        host=_host(result),
        machine={name: getattr(environment, name) for name in MUST_AGREE},
        software={**found, "python": environment.python, **environment.packages},
        parts={**_tests(result), **_ceilings(summary.ceilings)},
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


def _identity(test: Row) -> str:
    """A digest of all that must agree for two tests to be compared."""
    return sha256(repr(sorted(facts_of(test, FREE))).encode()).hexdigest()


def _part(tests: Sequence[Row]) -> Part:
    first = tests[0]
    samples = [dict(_values(test)) for test in tests]
    known = dict.fromkeys(name for values in samples for name in values)
    values = {name: median(each[name] for each in samples if name in each) for name in known}
    failed = any(test.verdict != PASSED for test in tests)
    return Part(TESTS, f"{first.index} {first.tv} {first.p} x {first.q}", values, CHECKS_FAILED * failed)


def _values(test: Row) -> Iterator[tuple[str, float]]:
    yield from ((name, getattr(test, name)) for name in OF_ROW)
    yield from _known(test.scores, _columns(type(test.scores)))


def _ceilings(ceilings: RunCeilings) -> dict[str, Part]:
    values = dict(_known(ceilings, names(CEILINGS)))
    return {CEILINGS: Part(CEILINGS, "ceilings of a rank", values)} if values else {}


def _columns(kind: type[Record]) -> list[str]:
    """The scores that result.csv has."""
    return [field.name for field in fields(kind) if field.csv]


def _known(record: Record, columns: Sequence[str]) -> Iterator[tuple[str, float]]:
    yield from ((name, value) for name in columns if (value := getattr(record, name)) is not None)
