"""One file: verified, then its lines; or why it is not ranked."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec.json import encode

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
        return told(path, lambda: _submission(path, verified(path, cache, source)))
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


class Sound(NamedTuple):
    """A verified result, the SHA-256 of its file, and the fingerprint that stands in the file, whatever its schema."""

    result: Result
    file: str
    stored: str


def verified(path: Path, cache: Cache | None, source: str) -> Sound:
    """The result of a file, verified; InputError if it is not sound, or its files changed during the verification."""
    begun = digest(path)
    document: Any = read(path)
    result = loaded(document)
    found = digests(path, result)
    name = name_of(found, source, os.environ.get(FURTHER, ""))
    known = cache is not None and cache.knows(name)
    if not known and (different := verify.differences(path)):
        raise InputError(_differences(different))
    if found[""] != begun or digests(path, result) != found:
        raise InputError("the files changed while they were read")
    if cache and not known:
        cache.enter(name)
    return Sound(result, begun, str(document["summary"]["fingerprint"]))


def _submission(path: Path, sound: Sound) -> Submission | Apart:
    result = sound.result
    if reason := why_not_ranked(result):
        return Apart(str(path), reason)
    assert result.summary is not None, "a result without a summary is not loaded"
    further = (sound.stored, _measurements(result))
    lines = tuple(lines_of(result, cell(path)))
    return Submission(str(path), result.summary.fingerprint, lines, digest=sound.file, further=further)


def _measurements(result: Result) -> str:
    """A digest of all raw measurements: no two runs have the same times."""
    entries = (*result.tests, *result.tables)
    return sha256(encode([entry.raw for entry in entries])).hexdigest()


def loaded(document: Any) -> Result:
    """The result of a document; of an older schema with the status and scores by today's rules."""
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
