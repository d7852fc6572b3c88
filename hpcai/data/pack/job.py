"""The packing job: what is missing is divided among the ranks, and the index is written once nothing is."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hpcai import clock
from hpcai.comm.world import World, agreed, broadcast, patient_barrier
from hpcai.data.pack.check import intact
from hpcai.data.pack.source import Shard, scan, shards
from hpcai.data.pack.write import PART, entry, write
from hpcai.data.places import INDEX
from hpcai.data.shards import IMAGE_BYTES, TRAIN, VALIDATION, Entry, Index, index_text
from hpcai.errors import DataError, HpcaiError, InputError

REFUSED = "refused.txt"
LOCK = ".lock"
PAUSE = 30.0  # seconds between two lines of progress
OVERHEAD = 1 << 20  # bytes of a shard beside its images, generously


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    source: Path
    target: Path
    shard_bytes: int
    allow_refused: int


def pack(options: Options, world: World) -> int:
    """Make or complete a packed set; the exit code, the same on every rank. Collective."""
    train, validation = scan(options.source, world)
    each = max(1, options.shard_bytes // IMAGE_BYTES)
    planned = [*shards(train, each), *shards(validation, each)]
    with _claimed(options.target, world):
        missing = agreed(world.comm, lambda: _missing(options.target, planned))
        missing = sorted([*missing, *_damaged(options.target, planned, missing, world)])
        progress = _Progress(options.target, [planned[number].file for number in missing], world.rank)
        for number in missing[world.rank :: world.size]:
            write(options.target, planned[number], progress.tell)
        patient_barrier(world.comm)
        return int(broadcast(world.comm, _close(options, planned) if world.rank == 0 else None))


@contextmanager
def _claimed(target: Path, world: World) -> Iterator[None]:
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


def _missing(target: Path, planned: list[Shard]) -> list[int]:
    """Numbers of the shards to make; removes what a killed job left, and shards that cannot be read."""
    for left in target.glob(f"*{PART}"):
        left.unlink()
    expected = {shard.file for shard in planned}
    strangers = sorted(path.name for path in target.glob("*-*.h5") if path.name not in expected)
    if strangers:
        raise InputError(
            f"{target} has shards that this source has not, {strangers[0]} for one; allowed: an empty folder"
        )
    missing = [number for number, shard in enumerate(planned) if not _is_complete(target / shard.file, shard)]
    _check_space(target, sum(planned[number].planned * IMAGE_BYTES + OVERHEAD for number in missing))
    if missing:
        (target / INDEX).unlink(missing_ok=True)
    return missing


def _is_complete(path: Path, shard: Shard) -> bool:
    if not path.exists():
        return False
    try:
        entry(path, shard)
    except DataError as error:
        if error.__cause__ is None:  # readable, but of something else
            raise InputError(str(error)) from error
        print(f"hpcai: {error}: made again", file=sys.stderr)
        path.unlink()
        return False
    return True


def _damaged(target: Path, planned: list[Shard], missing: list[int], world: World) -> list[int]:
    """Numbers of the shards that lie there but do not hold what was written; they are removed. Collective."""
    there = sorted({*range(len(planned))} - {*missing})
    mine = [number for number in there[world.rank :: world.size] if not intact(target / planned[number].file)]
    for number in mine:
        print(f"hpcai: {target / planned[number].file} is damaged: made again", file=sys.stderr)
        (target / planned[number].file).unlink()
        (target / INDEX).unlink(missing_ok=True)
    return [number for numbers in world.comm.allgather(mine) for number in numbers]


def _check_space(target: Path, needed: int) -> None:
    status = os.statvfs(target)
    free = status.f_bavail * status.f_frsize
    if needed > free:
        raise HpcaiError(f"{target} needs {needed} bytes more, {free} are free; allowed: a place with as many")


class _Progress:
    """A line on stderr now and then, from rank 0; what is done is seen from the files."""

    def __init__(self, target: Path, files: list[str], rank: int) -> None:
        self.target, self.files, self.speaks = target, files, rank == 0
        self.told = clock.now()

    def tell(self) -> None:
        """One more picture is packed on this rank."""
        if self.speaks and clock.now() - self.told >= PAUSE:
            self.told = clock.now()
            done = sum((self.target / name).exists() for name in self.files)
            print(f"hpcai: packed {done} of {len(self.files)} shards", file=sys.stderr, flush=True)


def _close(options: Options, planned: list[Shard]) -> int:
    """Write the list of refused pictures and, if they are not too many, the index; the exit code."""
    target = options.target
    made = [entry(target / shard.file, shard) for shard in planned]
    refused = [line for _, lines in made for line in lines]
    _replace(target / REFUSED, "".join(f"{line}\n" for line in refused))
    print(f"hpcai: {len(refused)} pictures refused, named in {target / REFUSED}" if refused else "hpcai: none refused")
    if len(refused) > options.allow_refused:
        with suppress(FileNotFoundError):
            (target / INDEX).unlink()
        print(
            f"hpcai: {target} is no dataset yet: {len(refused)} pictures refused, {options.allow_refused} allowed; "
            f"with --allow-refused {len(refused)} it becomes one without them, in seconds",
            file=sys.stderr,
        )
        return 1
    index = _index(planned, [done for done, _ in made], len(refused))
    _replace(target / INDEX, index_text(index))
    print(
        f"hpcai: {target}: {index.samples(TRAIN)} + {index.samples(VALIDATION)} samples, {len(index.classes)} classes, "
        f"{len(made)} shards, fingerprint {index.fingerprint}"
    )
    return 0


def _index(planned: list[Shard], entries: list[Entry], refused: int) -> Index:
    by_split = {
        name: tuple(done for shard, done in zip(planned, entries, strict=True) if shard.split.name == name)
        for name in (TRAIN, VALIDATION)
    }
    return Index(planned[0].split.classes, by_split[TRAIN], by_split[VALIDATION], refused)


def _replace(path: Path, text: str) -> None:
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
