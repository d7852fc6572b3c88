"""One file: verified, then its lines; or why it is not ranked."""

import os
from pathlib import Path

from hpcai.errors import HpcaiError, InputError
from hpcai.ranking import from_report
from hpcai.ranking.cache import Cache
from hpcai.ranking.contents import digest, digests, name_of, regular
from hpcai.ranking.lines import lines_of, why_not_ranked
from hpcai.ranking.submission import Apart, Submission
from hpcai.record.loading import read, result_of
from hpcai.record.older import is_older
from hpcai.record.result import Result
from hpcai.results.cells import cell
from hpcai.verification import verify
from hpcai.workloads.registry import FURTHER

MOST_SHOWN = 2  # differences in the line of a result that is not sound
JSON = ".json"
# What manipulated files can cause: in the verification, in the libraries that read them, where records contradict.
UNFIT = (*verify.UNFIT, RuntimeError, AssertionError)


def examine(path: Path, cache: Cache | None, source: str) -> Submission | Apart:
    """What a file has for the lists; `source`: SHA-256 of the program's source."""
    try:
        return _result(path, cache, source) if path.suffix == JSON else _report(path)
    except HpcaiError as error:
        return Apart(str(path), cell(error))
    except UNFIT as error:
        return Apart(str(path), cell(f"cannot be read: {type(error).__name__}: {error}"))


def _result(path: Path, cache: Cache | None, source: str) -> Submission | Apart:
    """A result file. Its contents are the same before and after the verification, or it is not ranked."""
    begun = digest(path)
    result = _loaded(path)
    found = digests(path, result)
    name = name_of(found, source, os.environ.get(FURTHER, ""))
    known = cache is not None and cache.knows(name)
    if not known and (different := verify.differences(path)):
        return Apart(str(path), _differences(different))
    if found[""] != begun or digests(path, result) != found:
        raise InputError("the files changed while they were read")
    if cache and not known:
        cache.enter(name)
    return _submission(path, result)


def _submission(path: Path, result: Result) -> Submission | Apart:
    if reason := why_not_ranked(result):
        return Apart(str(path), reason)
    assert result.summary is not None, "a result without a summary is not loaded"
    return Submission(str(path), result.summary.fingerprint, tuple(lines_of(result, cell(path))))


def _loaded(path: Path) -> Result:
    """The result; of an older schema with the status and scores by today's rules."""
    document = read(path)
    result = result_of(document)
    return verify.rebuilt(result) if is_older(document) else result


def _differences(different: list[str]) -> str:
    shown = "; ".join(map(cell, different[:MOST_SHOWN]))
    more = len(different) - MOST_SHOWN
    return f"NOT VERIFIED: {shown}" + (f"; and {more} more differences" if more > 0 else "")


def _report(path: Path) -> Submission | Apart:
    """A printed report without its result: what its own numbers allow is checked."""
    regular(path)
    report = from_report.parsed(path.read_text("utf-8", "replace"))
    if found := from_report.contradictions(report):
        return Apart(str(path), f"from report, not listed: {'; '.join(map(cell, found[:MOST_SHOWN]))}")
    return from_report.submission(report, str(path))
