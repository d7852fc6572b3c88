"""Verification of a result: recomputes it from its input and raw measurements, and lists all differences.

Raw measurements must also fulfil the claims of their workload (hpcai.results.claim).
"""

from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path

from msgspec import structs

from hpcai import __version__
from hpcai.claims.machine_claims import violated_machine_claims, violated_run_claims
from hpcai.errors import HpcaiError
from hpcai.inputfile import Case
from hpcai.machine import program_source
from hpcai.record.entry import Entry
from hpcai.record.loading import load, load_in_parts, read
from hpcai.record.loading import result_of as loaded
from hpcai.record.older import as_older, is_older, upgraded
from hpcai.record.plain import Json, plain
from hpcai.record.problem import input_of, problem_of
from hpcai.record.result import BrokenOff, Result
from hpcai.report import files, series
from hpcai.report.closing import summary_of
from hpcai.results.assembly import broken_off, enter, violated_claims, without_tests
from hpcai.results.lost_groups import lost_groups
from hpcai.results.measured import Measured
from hpcai.results.summary import sealed
from hpcai.verification import folder
from hpcai.verification.comparison import differences_of, first_difference
from hpcai.workloads import registry

# Exceptions that a manipulated file can cause in arithmetic, look-ups and formats.
UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError, OSError)

READINGS = 5  # of a folder whose files a run replaces meanwhile


def differences(path: Path, most_bytes: float = inf) -> list[str]:
    """Differences of a result file, and of the files beside it, from what follows from the raw measurements.

    InputError if the file is not a result at all. most_bytes: as of hpcai.verification.folder.differences.
    """
    for _ in range(READINGS):
        before = folder.stamp(path.parent)
        found = _differences(path, most_bytes)
        if not found or folder.stamp(path.parent) == before:  # else a run has replaced files meanwhile
            return found
    return [f"a run still writes: each of {READINGS} readings fell between the replacement of two files"]


def _differences(path: Path, most_bytes: float) -> list[str]:
    if linked := folder.linked(path, ()):
        return linked
    if interrupted := folder.interruption(path.parent):
        return [interrupted]
    document = None
    if (stored := load_in_parts(path)) is None:
        document = read(path)
        try:
            stored = loaded(document)
        except HpcaiError as error:
            return [str(error)]
    try:
        if linked := folder.linked(path, beside(stored)):
            return linked
        made = rebuilt(stored)
        different = _of_document(path, document, made)
        files_differ = _file_differences(path.parent, made, rendered=document is None or not is_older(document))
        listed = folder.differences(path, beside(stored), most_bytes)
        return [*different, *contradictions(stored), *files_differ, *listed]
    except UNFIT as error:
        return [f"the result cannot be made again: {type(error).__name__}: {error}"]
    except HpcaiError as error:
        return [f"the result cannot be made again: {error}"]


def _of_document(path: Path, document: Json | None, made: Result) -> Iterator[str]:
    """Differences of a result's document, None if it was read in parts, from the result that was made again."""
    if document is None and _holds(path, files.result_parts(made)):
        return
    document = document or read(path)
    expected = as_older(plain(made), document) if is_older(document) else plain(made)
    yield from differences_of(upgraded(document), expected)


def _holds(path: Path, parts: Iterable[bytes]) -> bool:
    """Whether a file has exactly this content."""
    with path.open("rb") as file:
        return all(file.read(len(part)) == part for part in parts) and not file.read(1)


def beside(result: Result) -> list[str]:
    """Names of all files that a verification compares with a result, whether they are there or not."""
    further = (name for test in result.tests for name in _further_files(test))
    return [*files.names(), files.SERIES, *further, *files.recorded_digests(result)]


def sound_message(path: Path) -> str:
    """The message after verification of a correct result: what was compared, and its status."""
    document = read(path)
    result, old = loaded(document), is_older(document)
    summary = summary_of(rebuilt(result) if old else result)  # the status by today's rules
    kept = [name for test in result.tests for name in _further_files(test)]
    rendered = () if old else files.texts(result)
    beside = [name for name in (*rendered, files.SERIES, *kept) if (path.parent / name).exists()]
    compared = f"with {' and '.join(beside)}" if beside else "no other files to compare"
    if missing := [name for name in kept if name not in beside]:
        compared += f"; not evaluated again without {' and '.join(missing)}"
    if old:
        compared += f"; report, tables and status of schema {document['schema']} are not compared"
    tests = f"{summary.passed} of {summary.planned} tests PASSED"
    return f"every number follows from the raw measurements, {compared}; {summary.valid}, {tests}"


def notes(path: Path) -> list[str]:
    """What a reader should know about a result, whether it is sound or not.

    Source of the same version that differs, no SHA256SUMS, files that it does not list.
    """
    try:
        result = load(path)
    except HpcaiError:
        return []
    return [*_source_notes(result), *folder.notes(path)]


def _source_notes(result: Result) -> list[str]:
    made, here = result.environment.source_sha256, program_source.digest()
    if result.version != __version__ or made in ("", here):
        return []
    return [f"source {made[:12]} of version {__version__} made it, source {here[:12]} of the same version verifies it"]


def _further_files(test: Entry) -> list[str]:
    """Names of further files of a test in the result folder."""
    part = registry.optional_part(test.workload, "files")
    return list(part.names(test)) if part else []


def rebuilt(stored: Result) -> Result:
    """The result recomputed from the stored input, environment and raw measurements."""
    cases = cases_of(stored)
    made = structs.replace(without_tests(stored), input=input_of(problem_of(stored.input)))
    for case, entry in zip(cases, _entries(stored, cases), strict=False):
        made, _ = enter(made, case, Measured(entry.raw, entry.memory, entry.telemetry, entry.wall))
    made = structs.replace(made, broken_off=_broken_off(stored.broken_off, cases))
    return sealed(made, len(cases))


def _entries(stored: Result, cases: list[Case]) -> Iterator[Entry]:
    """The stored tests and tables in the order of their cases; any that no case asks for are reported."""
    tests, tables = iter(stored.tests), iter(stored.tables)
    for case in cases:
        entry: Entry | None = next(tests if registry.workload(case.workload).digit else tables, None)
        if entry is None or entry.workload != case.workload:
            return
        yield entry


def _broken_off(stored: BrokenOff | None, cases: list[Case]) -> BrokenOff | None:
    return stored and broken_off(cases[stored.index - 1], stored.cause, stored.raw)


def cases_of(result: Result) -> list[Case]:
    """The cases of a result's input on its machine, without the groups that were lost."""
    cases = problem_of(result.input).cases(result.environment.ranks, result.environment.accelerators)
    lost = {entry.index: lost_groups(entry) for entry in result.tests}
    if stopped := result.broken_off:
        lost[stopped.index] = lost_groups(stopped)
    return [case.without(lost.get(case.index, ())) for case in cases]


def contradictions(result: Result) -> Iterator[str]:
    """Claims that the result violates; raw measurements of a FAILED test are not checked."""
    cases = cases_of(result)
    if found := [*violated_machine_claims(result, cases), *violated_run_claims(result, cases)]:
        yield from found
        return
    for name, entries in (("tests", result.tests), ("tables", result.tables)):
        for index, entry in enumerate(entries):
            for claim in violated_claims(cases[entry.index - 1], entry, result.environment):
                yield f"{name}[{index}].raw does not fulfil: {claim}"


def _file_differences(place: Path, made: Result, rendered: bool) -> Iterator[str]:
    """Differences of report, tables and series, where they exist beside the result.

    rendered: report and tables are compared, since this version renders those of the result's schema.
    """
    texts = files.texts(made)
    for name in files.names() if rendered else ():
        path, expected = place / name, map(str.encode, texts.get(name, ()))
        if path.exists() and not path.is_file():
            yield f"{name} is no file"
        elif path.exists() and not _holds(path, expected):
            found, whole = path.read_bytes().decode("utf-8", "replace"), "".join(files.texts(made).get(name, ()))
            yield f"{name}, line {first_difference(found, whole)}: not what the result file says"
    if (place / files.SERIES).exists():
        yield from series.differences(place / files.SERIES, made)
    cases = cases_of(made)
    for test in made.tests:
        if part := registry.optional_part(test.workload, "files"):
            yield from part.differences(place, cases[test.index - 1], test)
    if (stopped := made.broken_off) and stopped.raw is not None:
        stopped_part = registry.optional_part(stopped.workload, "files")
        yield from stopped_part.stopped_differences(place, stopped) if stopped_part else ()
