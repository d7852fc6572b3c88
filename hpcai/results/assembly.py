"""Assembly of a result test by test, by the run and again by the verification of a stored result."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from msgspec import structs

from hpcai.formulas import eligibility, score
from hpcai.inputfile import Case
from hpcai.record.check_declarations import CLAIMS
from hpcai.record.entry import Entry, Row, Table
from hpcai.record.machine import Environment
from hpcai.record.plain import checked
from hpcai.record.record import Record
from hpcai.record.result import BrokenOff, Result
from hpcai.record.sharing import shared
from hpcai.results.claim import Subject, violated
from hpcai.results.layers import at_level
from hpcai.results.measured import Before, Measured
from hpcai.results.row import tv
from hpcai.workloads import registry


def enter(result: Result, case: Case, measured: Measured) -> tuple[Result, Entry]:
    """The result with one more test, and the entry of that test."""
    before = Before(result.tests, result.tables, result.kernels, result.collectives)
    checks, measured = registry.part(case.workload, "checks"), as_stored(measured)
    entry = with_claims(case, checks.build(case, measured, before), result.environment)
    entry = checked(at_level(entry, case, result.environment))
    if isinstance(entry, Row):
        entry = shared(entry, result.tests[-1] if result.tests else None)
        return structs.replace(result, tests=(*result.tests, entry)), entry
    member = registry.workload(case.workload).rows
    rows = (*getattr(result, member), *map(checked, checks.rows(case, measured.raw))) if member else ()
    more = {member: rows} if member else {}
    return structs.replace(result, tables=(*result.tables, entry), **more), entry


def as_stored(measured: Measured) -> Measured:
    """The measurements with every number of its declared type, as a stored result has them."""
    telemetry = checked(measured.telemetry) if measured.telemetry else None
    wall = checked(measured.wall) if measured.wall else None
    return Measured(checked(measured.raw), checked(measured.memory), telemetry, wall)


def violated_claims(case: Case, entry: Entry, environment: Environment) -> list[str]:
    """The workload's claims that a test violates; none for a FAILED test, whose measurements may be anything."""
    if entry.verdict != "PASSED":
        return []
    return list(violated(registry.part(case.workload, "claims").CLAIMS, Subject(case, entry, environment)))


def failed_by(case: Case, entry: Entry, environment: Environment) -> list[str]:
    """The violated claims that made a test FAILED; none where its claims hold or are NOT CHECKED."""
    if entry.verdict == "PASSED" or (isinstance(entry, Row) and entry.checks[-1].verdict != "FAILED"):
        return []
    return violated_claims(case, structs.replace(entry, verdict="PASSED"), environment)


def with_claims(case: Case, entry: Entry, environment: Environment) -> Entry:
    """The entry; FAILED if its raw measurements violate a claim. Rows get a check.

    The claims of an entry that is FAILED already are NOT CHECKED: a model that diverged trains for fewer epochs.
    """
    wrong = len(violated_claims(case, entry, environment))
    if isinstance(entry, Row):
        check = CLAIMS.of(wrong) if entry.verdict == "PASSED" else CLAIMS.not_checked()
        entry = structs.replace(entry, checks=(*entry.checks, check))
        if wrong:
            reasons = (*entry.reasons, eligibility.FAILED)
            entry = structs.replace(entry, status=eligibility.INVALID, reasons=reasons)
    return structs.replace(entry, verdict="FAILED") if wrong else entry


def without_tests(result: Result) -> Result:
    """The result before its first test."""
    return structs.replace(result, broken_off=None, **dict.fromkeys(_lists(), ()))


def added(before: Result, after: Result) -> Result:
    """Of a result to which tests were added, these tests alone."""
    return structs.replace(after, **{name: getattr(after, name)[len(getattr(before, name)) :] for name in _lists()})


def joined(result: Result, more: Sequence[Result]) -> Result:
    """A result with the tests of others."""
    every = (result, *more)
    return structs.replace(result, **{name: tuple(chain(*(getattr(e, name) for e in every))) for name in _lists()})


def _lists() -> list[str]:
    """Members of a result that have entries or rows of its tests."""
    return ["tests", "tables", *filter(None, (each.rows for each in registry.workloads()))]


def ended(result: Result) -> list[Entry]:
    """Tests and tables in the order of their cases."""
    return sorted([*result.tests, *result.tables], key=lambda entry: entry.index)


def rows_of(result: Result, table: Table) -> Sequence[Record]:
    """The rows of a table."""
    member = registry.workload(table.workload).rows
    return [row for row in getattr(result, member) if row.test == table.index] if member else []


def broken_off(case: Case, cause: str, raw: Any) -> BrokenOff:
    """The test in which a run was broken off; `raw` is None if it had not begun, or for a table."""
    has_row = registry.workload(case.workload).digit > 0
    raw = checked(raw) if has_row and raw is not None else None
    found = BrokenOff(
        index=case.index,
        workload=case.workload,
        tv=tv(case) if has_row else None,
        cause=cause,
        n=0,
        gflops=None,
        raw=raw,
    )
    if raw is None:
        return found
    credited = registry.part(case.workload, "checks").credited(case, raw)
    rate = score.flops(credited, raw.seconds) / 1e9 if raw.seconds else None
    return structs.replace(found, n=raw.samples, gflops=rate)
