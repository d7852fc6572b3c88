"""Tests that have ended since the files of a result were written: .ended.jsonl, a line each, which is only appended to.

The files are written as wholes, which takes longer the more tests there are: after short tests of a long run it is
left out (hpcai/recorder.py). A line is a result with one test alone, with its own digest. It is of the rank that
writes.
"""

import json
from contextlib import suppress
from pathlib import Path

from hpcai.errors import DataError, InputError
from hpcai.machine.appended_lines import append_line, lines_of
from hpcai.machine.disk import flush
from hpcai.record.loading import document_of, result_of
from hpcai.record.plain import digest, plain
from hpcai.record.result import Result
from hpcai.results.assembly import added, ended, joined
from hpcai.results.summary import sealed

NAME = ".ended.jsonl"  # hidden: SHA256SUMS does not list it


def append(folder: Path, before: Result, after: Result) -> None:
    """Keep the test by which a result has grown. DataError where the file system refuses."""
    part = added(before, after)
    (entry,) = ended(part)
    text = json.dumps(plain(sealed(part, 1)), ensure_ascii=False, separators=(",", ":"))
    path = folder / NAME
    append_line(path, text.encode(), f"test {entry.index}")
    flush(path)


def with_kept(folder: Path, result: Result) -> Result:
    """A result with the kept tests that it lacks. DataError names a line that is none, or of another run."""
    path = folder / NAME
    if path.is_symlink():
        raise DataError(f"{path}: a symbolic link; allowed: a file of the run")
    known, more = {entry.index for entry in ended(result)}, []
    for number, text in enumerate(lines_of(path)[0] if path.exists() else (), start=1):
        part = _part(text, f"{path}, line {number}")
        if part.date != result.date or part.input != result.input:
            raise DataError(f"{path}, line {number}: a test of another run")
        new = {entry.index for entry in ended(part)}
        if known.isdisjoint(new):
            known |= new
            more.append(part)
    return joined(result, more)


def _part(text: bytes, place: str) -> Result:
    """The result of a line."""
    try:
        document = document_of(text, place)
        if document.get("digest") != digest(document):
            raise InputError(f"{place}: not what its digest says")
        return result_of(document)
    except InputError as error:
        raise DataError(str(error)) from None


def remove(folder: Path) -> None:
    """The files of the result have all tests."""
    with suppress(OSError):
        (folder / NAME).unlink(missing_ok=True)
