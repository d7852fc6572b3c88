"""Check of a packed set: every byte is read again and compared with the checksums."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from hpcai.comm.world import World
from hpcai.data.image_shards import SPLITS, Contents, Entry, check_frame, names, opened, read_index
from hpcai.errors import DataError

ROWS = 64  # images that are read at a time


class Named(Protocol):
    """A shard of any kind."""

    @property
    def file(self) -> str: ...


T = TypeVar("T", bound=Named)


def check(target: Path, world: World) -> int:
    """Print every damaged sample and shard of a packed set; the exit code, the same on every rank. Collective."""
    index = read_index(target)
    entries = [entry for split in SPLITS for entry in index.split(split)]
    return print_differences(target, entries, _differences, index.fingerprint, world)


def print_differences(
    target: Path, entries: Sequence[T], differences: Callable[[Path, T], Iterator[str]], fingerprint: str, world: World
) -> int:
    """Print the differences in the shards of an index, one a line; the exit code, equal on every rank. Collective."""
    own = [line for entry in entries[world.rank :: world.size] for line in _damage(target, entry, differences)]
    found = sorted(line for lines in world.comm.allgather(own) for line in lines)
    if world.rank == 0:
        for line in found:
            print(line)
        verdict = f"{len(found)} differences" if found else f"intact, fingerprint {fingerprint}"
        print(f"{target}: {len(entries)} shards, {verdict}")
    return 1 if found else 0


def intact(path: Path) -> bool:
    """Whether the contents of a shard match its stored SHA-256; reads all of it."""
    try:
        with opened(path) as file:
            images, digest = file["images"], Contents()
            for begin in range(0, len(images), ROWS):
                digest.add(images[begin : begin + ROWS])
            return digest.close(file["labels"][:]) == str(file.attrs["sha256"])
    except DataError:
        return False


def _damage(target: Path, entry: T, differences: Callable[[Path, T], Iterator[str]]) -> Iterator[str]:
    """Differences in one shard, one a line; an unreadable shard is a difference."""
    try:
        yield from differences(target / entry.file, entry)
    except DataError as error:
        yield str(error)


def _differences(path: Path, entry: Entry) -> Iterator[str]:
    check_frame(path, entry)
    with opened(path) as file:
        digest, sums, sources = Contents(), file["crc32"][:], names(file["files"])
        for number, expected in enumerate(sums):
            image = file["images"][number]
            digest.add(image)
            if zlib.crc32(image) != expected:
                yield f"{path}: sample {number} ({sources[number]}) differs from its CRC-32"
        found = digest.close(file["labels"][:])
    if found != entry.sha256:
        yield f"{path}: contents of SHA-256 {found}; allowed: {entry.sha256}"
