"""Statistics of the channels: means and standard deviations from one pass over the fields by all ranks.

A part is a run of frames of one file. Its statistics are stored beside the file, and are valid while the file has the
same boxes, size and sampled bytes: all of them below 4 MiB, else both ends and 64 places between. Other bytes that
change are found when their frame is read: by the checksums of its compressed chunks, or by its CRC-32.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct, convert, to_builtins

from hpcai.data.image_shards import json_digest
from hpcai.data.weather.moments import Moments
from hpcai.data.weather.survey import survey
from hpcai.data.weather.year_file import Part, YearFile, readable

if TYPE_CHECKING:
    from mpi4py import MPI

T = TypeVar("T")

FILE = "weather-statistics.json"
FORMAT = 2
_WHOLE, _END, _PLACES, _PIECE = 4 << 20, 64 << 10, 64, 4 << 10  # bytes of a file in its stamp


Key = tuple[str, int, int, str]  # file, first frame, the one after the last, stamp


class PartStatistics(Struct, frozen=True):
    """Statistics of a part, as kept beside its file.

    file, begin, stop: the frames; stamp: digest that tells whether the file has changed; sha256: of fields and boxes
    (hexadecimal); sums: CRC-32 of each frame; count, mean, squares: see `Moments`.
    """

    file: str
    begin: int
    stop: int
    stamp: str
    sha256: str
    sums: list[int]
    count: int
    mean: list[float]
    squares: list[float]

    @property
    def key(self) -> Key:
        """What identifies the part."""
        return self.file, self.begin, self.stop, self.stamp

    @property
    def moments(self) -> Moments:
        """Moments of the channels."""
        return Moments(self.count, np.array(self.mean), np.array(self.squares))


_remembered: dict[Key, PartStatistics] = {}  # for folders that cannot be written


def known(parts: Sequence[Part], comm: "MPI.Comm | None" = None) -> list[PartStatistics]:
    """Statistics of the parts: read from beside the files, else computed by a pass over the fields and then stored.

    Collective where there is a `comm`: its ranks divide the pass, and the result does not depend on their number.
    Raises DataError, Refused on every rank, for fields that are not finite, and for boxes with x and y exchanged.
    """
    keys = _agreed(comm, lambda: [_key(part) for part in parts], list[Key])
    stored = _agreed(
        comm,
        lambda: [_stored_of(part, key) for part, key in zip(parts, keys, strict=True)],
        list[PartStatistics | None],
    )
    missing = [number for number, one in enumerate(stored) if one is None]
    surveyed = survey([parts[number] for number in missing], comm)
    made = {
        number: PartStatistics(*keys[number], one.sha256, one.sums, *one.moments.as_lists())
        for number, one in zip(missing, surveyed, strict=True)
    }
    if made and (comm is None or comm.rank == 0):
        for folder in {parts[number].year.path.parent for number in made}:
            _store(folder, [one for number, one in made.items() if parts[number].year.path.parent == folder])
    found = [one or made[number] for number, one in enumerate(stored)]
    _remembered.update({one.key: one for one in found})
    return found


def total(found: Sequence[PartStatistics]) -> Moments:
    """The moments of all parts together."""
    return reduce(add, (each.moments for each in found))


def _agreed(comm: "MPI.Comm | None", make: Callable[[], T], kind: type[T]) -> T:
    """What `make` returns on the first rank, of that type, on every rank."""
    if comm is None:
        return make()
    from hpcai.comm.world import agreed

    return convert(agreed(comm, lambda: to_builtins(make())), kind)


def _key(part: Part) -> Key:
    path = part.year.path
    with readable(path):
        return path.name, part.begin, part.stop, _stamp(part.year)


def _stamp(year: YearFile) -> str:
    """SHA-256 over the size of a file, its boxes and some of its bytes."""
    path, size = year.path, year.path.stat().st_size
    digest = hashlib.sha256(f"{size}\n".encode() + year.rows.astype("<i4").tobytes())
    with path.open("rb") as file:
        if size <= _WHOLE:
            digest.update(file.read())
        else:
            for place in (0, *(size * each // _PLACES for each in range(1, _PLACES)), size - _END):
                file.seek(place)
                digest.update(file.read(_END if place in (0, size - _END) else _PIECE))
    return digest.hexdigest()


def _stored_of(part: Part, key: Key) -> PartStatistics | None:
    """The statistics of a part; None if they are not stored."""
    if key in _remembered:
        return _remembered[key]
    return next((one for one in _stored(part.year.path.parent) if one.key == key), None)


def _stored(folder: Path) -> list[PartStatistics]:
    """The statistics stored in a folder; none if their file is damaged or of another format."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        digest = content.pop("digest")
        if digest == json_digest(content) and content["format"] == FORMAT:
            return convert(content["parts"], list[PartStatistics])
    return []


def _store(folder: Path, records: list[PartStatistics]) -> None:
    """Write statistics beside the files, in place of older ones of the same frames."""
    new = {record.key[:3] for record in records}
    kept = [old for old in _stored(folder) if old.key[:3] not in new]
    content = {"format": FORMAT, "parts": to_builtins([*kept, *records])}
    unfinished = folder / f".{FILE}.{os.uname().nodename}-{os.getpid()}"
    try:
        unfinished.write_text(
            json.dumps({**content, "digest": json_digest(content)}, indent=1) + "\n", encoding="utf-8"
        )
        unfinished.replace(folder / FILE)
    except OSError as error:
        print(f"hpcai: statistics cannot be kept in {folder} ({error.strerror}): found anew each time", file=sys.stderr)
