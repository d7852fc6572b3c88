"""Folders of cached machine code."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent  # folder of all kernels


def folder(name: str, place: str) -> Path | None:
    """Cache folder `name` below the path in variable `place`, or a default one; None if it cannot be written."""
    for root in _roots(place):
        found = root / name
        with suppress(OSError):
            found.mkdir(parents=True, exist_ok=True)
            if os.access(found, os.W_OK):
                return found
    return None


def _roots(place: str) -> Iterator[Path]:
    """Candidate paths: as the user says, else beside the sources, else the user's cache."""
    if os.environ.get(place):
        yield Path(os.environ[place])
        return
    yield HERE / "__pycache__"
    with suppress(RuntimeError):  # the user has no home folder
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcai"
