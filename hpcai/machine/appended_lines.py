"""Files of lines that are appended, each with one write. A last line that a crash cut off is torn, and ignored."""

import os
from pathlib import Path

from hpcai.errors import DataError


def append_line(path: Path, text: bytes, what: str) -> None:
    """Append a line. DataError where the file system refuses, or has no room for `what` it is."""
    try:
        count = _write(path, text + b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if count != len(text) + 1:
        raise DataError(f"{path}: there is no room for {what}")


def _write(path: Path, text: bytes) -> int:
    """How many bytes one write appended."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        return os.write(descriptor, text)
    finally:
        os.close(descriptor)


def lines_of(path: Path) -> tuple[list[bytes], bool]:
    """The whole lines, and whether there is a torn one behind them. DataError if the file cannot be read."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    return lines, bool(torn)
