"""The folder that is packed into: claimed by one job, filled by files that appear whole or not at all."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai import clock
from hpcai.comm.world import World, agreed
from hpcai.errors import HpcaiError, InputError

PART = ".part"
LOCK = ".lock"
PAUSE = 30.0  # seconds between two lines of progress


@contextmanager
def claimed(target: Path, world: World) -> Iterator[None]:
    """The target, made if need be and held for this job alone. Collective."""
    held: list[int] = []
    agreed(world.comm, lambda: held.append(_lock(target)))
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def _lock(target: Path) -> int:
    """A lock that ends with the process, however that ends."""
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
        pass  # a file system without locks: the ranks write under names of their own all the same
    return descriptor


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A place beside `path` to write an HDF5 file to, which takes that name once it is whole; HpcaiError if not."""
    part = path.with_name(f"{path.name}.{os.uname().nodename}-{os.getpid()}{PART}")
    try:
        yield part
        _settle(part)
        part.replace(path)
        _settle(path.parent)
    except (OSError, RuntimeError) as error:  # HDF5 reports a full disk in several ways
        raise HpcaiError(
            f"{path} cannot be written ({' '.join(str(error).split())}); "
            "allowed: a writable place with enough space; what is complete there is kept"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def check_space(target: Path, needed: int) -> None:
    """Raise HpcaiError if so many bytes have no room there."""
    status = os.statvfs(target)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise HpcaiError(f"{target} needs {needed} bytes more, {free} are free; allowed: a place with as many")


class Progress:
    """A line on stderr now and then, from rank 0; what is done is seen from the files."""

    def __init__(self, target: Path, files: list[str], rank: int) -> None:
        self.target, self.files, self.speaks = target, files, rank == 0
        self.told = clock.now()

    def tell(self) -> None:
        """One more sample is packed on this rank."""
        if self.speaks and clock.now() - self.told >= PAUSE:
            self.told = clock.now()
            done = sum((self.target / name).exists() for name in self.files)
            print(f"hpcai: packed {done} of {len(self.files)} shards", file=sys.stderr, flush=True)


def _settle(path: Path) -> None:
    """Make a file, or a rename in a folder, survive a failure of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    part = path.with_name(path.name + PART)
    try:
        with part.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise HpcaiError(f"{path} cannot be written: {error.strerror}") from error
