"""The journal of a search, history.jsonl: one line of JSON for each trial that ended, appended and never changed.

A last line that a crash cut off is ignored; any other line that is no trial is an error.
"""

import os
from pathlib import Path

import msgspec

from hpcai.errors import DataError
from hpcai.record.trial import Trial
from hpcai.search.messages import line

_trials = msgspec.json.Decoder(Trial)


def append(path: Path, trial: Trial) -> None:
    """Append the line of a trial with one write.

    DataError where the file system refuses, ValueError for a number that is not finite.
    """
    append_line(path, trial.id, line(trial))


def append_line(path: Path, trial: int, text: bytes) -> None:
    """As `append`, of a trial that is encoded already."""
    try:
        count = _write(path, text + b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if count != len(text) + 1:
        raise DataError(f"{path}: there is no room for trial {trial}")


def _write(path: Path, text: bytes) -> int:
    """How many bytes one write appended."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        return os.write(descriptor, text)
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Trial]:
    """All trials in the order in which they ended. DataError names the file and the line that is no trial."""
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    return [_trial(path, number, text) for number, text in enumerate(lines, start=1)]


def decode(text: bytes) -> Trial:
    """The trial of a line. ValueError or RecursionError for any other text."""
    return _trials.decode(text)


def _trial(path: Path, number: int, text: bytes) -> Trial:
    try:
        return decode(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not a trial of a search ({error})") from None
