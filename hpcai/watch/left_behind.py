"""Files in shared memory that an MPI library leaves behind when its ranks are killed."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FOLDER = "/dev/shm/"
MPICH = "mpich_shm_"  # beginnings of names
NAMES = (MPICH, "ucx_shm_posix_", "vader_segment.")  # the others: of UCX and Open MPI


def segments(pid: int) -> set[str]:
    """Paths of the segments of an MPI library that a process has mapped; empty if that cannot be seen."""
    beginnings = tuple(FOLDER + name for name in NAMES)
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines()
        return {path for line in lines if (path := line.split()[-1]).startswith(beginnings)}
    return set()


def remove(paths: Iterable[str]) -> None:
    """Remove those that are still there."""
    for path in paths:
        with suppress(OSError):
            Path(path).unlink()
