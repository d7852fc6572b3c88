"""Target folder of a packing job: locked by one job, filled with atomically written files."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai import clock
from hpcai.comm.world import World, agreed
from hpcai.errors import HpcaiError, InputError
from hpcai.machine.disk import flush

PART = ".part"
LOCK = ".lock"
PAUSE = 30.0  # seconds between two lines of progress


@contextmanager
def claimed(target: Path, world: World) -> Iterator[None]:
    """Create the target if missing, and lock it for this job. Collective."""
    held: list[int] = []
    agreed(world.comm, lambda: held.append(_lock(target)))
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def _lock(target: Path) -> int:
    """A lock that the kernel releases when the process ends."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}; allowed: a writable folder") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{target} is being packed by another job; allowed: wait for its end") from None
    except OSError:
        pass  # a file system without locks: ranks write under unique names anyway
    return descriptor


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """Temporary path for an HDF5 file, renamed to `path` when it is complete; HpcaiError if that fails."""
    part = path.with_name(f"{path.name}.{os.uname().nodename}-{os.getpid()}{PART}")
    try:
        yield part
        flush(part)
        part.replace(path)
        flush(path.parent)
    except (OSError, RuntimeError) as error:  # HDF5 reports a full disk in several ways
        raise HpcaiError(
            f"{path} cannot be written ({' '.join(str(error).split())}); "
            "allowed: a writable place with enough space; what is complete there is kept"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def check_space(target: Path, needed: int) -> None:
    """Raise HpcaiError unless `needed` bytes are free at the target."""
    status = os.statvfs(target)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise HpcaiError(f"{target} needs {needed} bytes more, {free} are free; allowed: a place with as many")


class Progress:
    """Progress lines on stderr from rank 0; progress is counted by the finished files."""

    def __init__(self, target: Path, files: list[str], rank: int) -> None:
        self.target, self.files, self.is_first = target, files, rank == 0
        self.printed = clock.now()

    def count_sample(self) -> None:
        """Note that this rank has packed one more sample."""
        if self.is_first and clock.now() - self.printed >= PAUSE:
            self.printed = clock.now()
            done = sum((self.target / name).exists() for name in self.files)
            print(f"hpcai: packed {done} of {len(self.files)} shards", file=sys.stderr, flush=True)


def replace(path: Path, text: str) -> None:
    """Write a text file atomically."""
    part = path.with_name(path.name + PART)
    try:
        with part.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise HpcaiError(f"{path} cannot be written: {error.strerror}") from error
