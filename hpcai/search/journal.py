"""The journal of a search, history.jsonl: one line of JSON for each trial that ended, appended and never changed.

A last line that a crash cut off is ignored; any other line that is no trial is an error.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hpcai.errors import DataError
from hpcai.machine import appended_lines
from hpcai.machine.disk import flush
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
    appended_lines.append_line(path, text, f"trial {trial}")


def replace(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file of lines: a kill leaves the old or the new one, whole. DataError where that fails."""
    temporary = path.with_name(f".{path.name}")
    try:
        temporary.unlink(missing_ok=True)
        temporary.write_bytes(b"".join(line + b"\n" for line in lines))
        flush(temporary)
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None


def read(path: Path) -> list[Trial]:
    """All trials in the order in which they ended. DataError names the file and the line that is no trial."""
    return [decode_line(path, number, text) for number, text in enumerate(appended_lines.lines_of(path)[0], start=1)]


def decode(text: bytes) -> Trial:
    """The trial of a line. ValueError or RecursionError for any other text."""
    return _trials.decode(text)


def decode_line(path: Path, number: int, text: bytes) -> Trial:
    """The trial of a line of a journal. DataError names the file and the line that is no trial."""
    try:
        return decode(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number}: not a trial of a search ({error})") from None
