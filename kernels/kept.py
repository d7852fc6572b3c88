"""Where machine code is kept between runs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent  # of all kernels


def folder(name: str, place: str) -> Path | None:
    """The folder of that name where the environment variable `place` says, or in the usual places; None if none can be
    made and written to.
    """
    for root in _roots(place):
        found = root / name
        with suppress(OSError):
            found.mkdir(parents=True, exist_ok=True)
            if os.access(found, os.W_OK):
                return found
    return None


def _roots(place: str) -> Iterator[Path]:
    """As the user says, else beside the sources, else in the user's own cache."""
    if os.environ.get(place):
        yield Path(os.environ[place])
        return
    yield HERE / "__pycache__"
    with suppress(RuntimeError):  # nobody's home is known
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcai"
