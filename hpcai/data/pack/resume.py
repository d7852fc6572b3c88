"""Resuming a packing job: finds the shards that are missing or damaged; complete ones are kept."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from hpcai.comm.world import World, agreed
from hpcai.data.pack.target import PART, check_space
from hpcai.errors import DataError, InputError

OVERHEAD = 1 << 20  # upper bound of the bytes of a shard without its samples


class PlannedShard(Protocol):
    """A planned shard: the name of its file, and the most bytes of its samples."""

    @property
    def file(self) -> str: ...

    @property
    def length(self) -> int: ...


T = TypeVar("T", bound=PlannedShard)


@dataclass(frozen=True)
class Plan(Generic[T]):
    """All shards of a set, and the name of its index, which is removed while a shard is missing.

    entry reads the description of an existing shard and raises DataError if that fails or its source differs; intact
    reads all of a shard. The same on every rank.
    """

    target: Path
    index: str
    shards: Sequence[T]
    entry: Callable[[Path, T], object]
    intact: Callable[[Path], bool]

    def missing(self, world: World) -> list[int]:
        """Numbers of the shards to make; damaged shards are removed. Collective."""
        missing = agreed(world.comm, self._absent)
        return sorted([*missing, *self._damaged(missing, world)])

    def _absent(self) -> list[int]:
        """Numbers of the missing shards; removes partial files of killed jobs, and unreadable shards."""
        for left in self.target.glob(f"*{PART}"):
            left.unlink()
        expected = {shard.file for shard in self.shards}
        unexpected = sorted(path.name for path in self.target.glob("*-*.h5") if path.name not in expected)
        if unexpected:
            raise InputError(
                f"{self.target} has shards that this source has not, {unexpected[0]} for one; allowed: an empty folder"
            )
        absent = [number for number, shard in enumerate(self.shards) if not self._is_complete(shard)]
        check_space(self.target, sum(self.shards[number].length + OVERHEAD for number in absent))
        if absent:
            (self.target / self.index).unlink(missing_ok=True)
        return absent

    def _is_complete(self, shard: T) -> bool:
        path = self.target / shard.file
        if not path.exists():
            return False
        try:
            self.entry(path, shard)
        except DataError as error:
            if error.__cause__ is None:  # readable, but of another source
                raise InputError(str(error)) from error
            print(f"hpcai: {error}: made again", file=sys.stderr)
            path.unlink()
            return False
        return True

    def _damaged(self, absent: Sequence[int], world: World) -> list[int]:
        """Numbers of the existing shards with damaged contents; they are removed. Collective."""
        present = sorted({*range(len(self.shards))} - {*absent})
        files = {number: self.target / self.shards[number].file for number in present[world.rank :: world.size]}
        damaged = [number for number, file in files.items() if not self.intact(file)]
        for number in damaged:
            print(f"hpcai: {files[number]} is damaged: made again", file=sys.stderr)
            files[number].unlink()
            (self.target / self.index).unlink(missing_ok=True)
        return [number for numbers in world.comm.allgather(damaged) for number in numbers]
