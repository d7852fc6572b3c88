"""One file: verified, then its lines; or why it is not ranked."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hpcai.errors import HpcaiError, InputError
from hpcai.ranking import from_report, report_checks
from hpcai.ranking.cache import Cache
from hpcai.ranking.contents import digest, digests, name_of
from hpcai.ranking.lines import lines_of, why_not_ranked
from hpcai.ranking.report_parser import parsed
from hpcai.ranking.submission import Apart, Submission
from hpcai.record.loading import read, result_of
from hpcai.record.older import is_older
from hpcai.record.result import Result
from hpcai.results.cells import cell
from hpcai.verification import verify
from hpcai.workloads.registry import FURTHER

MOST_SECONDS = 300.0  # of a file; a large result takes seconds
MOST_SHOWN = 2  # differences in the line of a result that is not sound
JSON = ".json"
MOST_BYTES_OF_REPORT = 4 * 2**20  # of a report without its result
Found = TypeVar("Found")
# What manipulated files can cause: in the verification, in the libraries that read them, where records contradict.
UNFIT = (*verify.UNFIT, RuntimeError, AssertionError)


def examine(path: Path, cache: Cache | None, source: str) -> Submission | Apart:
    """What a file has for the lists; `source`: SHA-256 of the program's source."""
    if path.suffix == JSON:
        return told(path, lambda: _submission(path, *verified(path, cache, source)))
    return told(path, lambda: _report(path))


def told(path: Path, read: Callable[[], Found]) -> Found | Apart:
    """What a file has, or why it cannot be used."""
    try:
        with _deadline(MOST_SECONDS):
            return read()
    except HpcaiError as error:
        return Apart(str(path), cell(error))
    except Exception as error:  # noqa: BLE001, a manipulated file may cause any error, and must not end the ranking
        return Apart(str(path), cell(f"cannot be read: {type(error).__name__}: {error}"))


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Context manager: TimeoutError in the block after so many seconds, in the first thread of a process only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"not verified within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def verified(path: Path, cache: Cache | None, source: str) -> tuple[Result, str]:
    """The result of a file, verified, and the file's SHA-256; InputError if it is not sound.

    Its files must not change during the verification.
    """
    begun = digest(path)
    result = loaded(path)
    found = digests(path, result)
    name = name_of(found, source, os.environ.get(FURTHER, ""))
    known = cache is not None and cache.knows(name)
    if not known and (different := verify.differences(path)):
        raise InputError(_differences(different))
    if found[""] != begun or digests(path, result) != found:
        raise InputError("the files changed while they were read")
    if cache and not known:
        cache.enter(name)
    return result, begun


def _submission(path: Path, result: Result, file: str) -> Submission | Apart:
    if reason := why_not_ranked(result):
        return Apart(str(path), reason)
    assert result.summary is not None, "a result without a summary is not loaded"
    lines = tuple(lines_of(result, cell(path)))
    return Submission(str(path), result.summary.fingerprint, lines, digest=file, stored=_stored(path))


def _stored(path: Path) -> str:
    """The fingerprint that a sound result of any schema has in its file."""
    document: Any = read(path)
    return str(document["summary"]["fingerprint"])


def loaded(path: Path) -> Result:
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
    begun = digest(path)
    if (size := path.stat().st_size) > MOST_BYTES_OF_REPORT:
        raise InputError(f"{path.name} has {size} bytes; allowed without a result: {MOST_BYTES_OF_REPORT}")
    report = parsed(path.read_text("utf-8", "replace"))
    if found := report_checks.contradictions(report):
        return Apart(str(path), f"from report, not listed: {'; '.join(map(cell, found[:MOST_SHOWN]))}")
    return from_report.submission(report, str(path), begun)
