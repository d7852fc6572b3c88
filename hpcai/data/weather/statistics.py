"""Means and standard deviations of the channels, and what they are of: one pass over the fields, by all ranks.

A part is a run of frames of one file. What was found of it is kept beside the file, and holds as long as the file has
the same size and the same bytes where it is sampled: whole below 4 MiB, else both ends and 64 places between.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcai.data.image_shards import json_digest
from hpcai.data.weather.moments import Moments
from hpcai.data.weather.survey import survey
from hpcai.data.weather.year_file import Part, readable

if TYPE_CHECKING:
    from mpi4py import MPI

FILE = "weather-statistics.json"
FORMAT = 1
_WHOLE, _END, _PLACES, _PIECE = 4 << 20, 64 << 10, 64, 4 << 10  # bytes of a file that its stamp looks at


@dataclass(frozen=True, eq=False)
class PartStatistics:
    """What a pass over a part has found: SHA-256 (hexadecimal) of its fields and boxes, and its moments."""

    sha256: str
    moments: Moments


def known(parts: Sequence[Part], comm: "MPI.Comm | None" = None) -> list[PartStatistics]:
    """What there is to know of the parts: from beside the files, else by a pass over their fields, which is then kept.

    Collective where there is a `comm`, whose ranks divide the pass; the result does not depend on their number.
    Raises DataError, Refused on every rank, for fields that are not finite, and for boxes with x and y exchanged.
    """
    stamps = _agreed(comm, lambda: [_identity(part) for part in parts])
    found = _agreed(comm, lambda: [_kept(part, stamp) for part, stamp in zip(parts, stamps, strict=True)])
    missing = [number for number, record in enumerate(found) if record is None]
    for number, record in zip(missing, survey([parts[each] for each in missing], comm), strict=True):
        found[number] = {**stamps[number], **record}
    if missing and (comm is None or comm.rank == 0):
        for folder in {parts[number].year.path.parent for number in missing}:
            _keep(folder, [found[number] for number in missing if parts[number].year.path.parent == folder])
    _remembered.update({_key(record): record for record in found})
    return [_known(record) for record in found]


def total(found: Sequence[PartStatistics]) -> Moments:
    """The moments of all parts together."""
    return reduce(add, (each.moments for each in found))


def _agreed(comm: "MPI.Comm | None", make: Callable[[], list[Any]]) -> list[Any]:
    """What `make` returns, as the first rank has it."""
    if comm is None:
        return make()
    from hpcai.comm.world import agreed

    return list(agreed(comm, make))


_remembered: dict[tuple[Any, ...], dict[str, Any]] = {}  # for folders that cannot be written


def _identity(part: Part) -> dict[str, Any]:
    path = part.year.path
    with readable(path):
        return {"file": path.name, "begin": part.begin, "stop": part.stop, "stamp": _stamp(path)}


def _stamp(path: Path) -> str:
    """SHA-256 over the size of a file and some of its bytes."""
    size = path.stat().st_size
    digest = hashlib.sha256(f"{size}\n".encode())
    with path.open("rb") as file:
        if size <= _WHOLE:
            digest.update(file.read())
        else:
            for place in (0, *(size * each // _PLACES for each in range(1, _PLACES)), size - _END):
                file.seek(place)
                digest.update(file.read(_END if place in (0, size - _END) else _PIECE))
    return digest.hexdigest()


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("file", "begin", "stop", "stamp"))


def _kept(part: Part, stamp: dict[str, Any]) -> dict[str, Any] | None:
    """What is known of a part; None if nothing is."""
    if _key(stamp) in _remembered:
        return _remembered[_key(stamp)]
    records = _stored(part.year.path.parent)
    return next((record for record in records if _key(record) == _key(stamp)), None)


def _stored(folder: Path) -> list[dict[str, Any]]:
    """The records beside the files; a file of them that is damaged, or of another format, is as good as none."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        digest = content.pop("digest")
        if digest == json_digest(content) and content["format"] == FORMAT:
            return list(content["parts"])
    return []


def _keep(folder: Path, records: list[dict[str, Any]]) -> None:
    """Write records beside the files, in place of older ones of the same frames."""
    new = {_key(record)[:3] for record in records}
    content = {"format": FORMAT, "parts": [old for old in _stored(folder) if _key(old)[:3] not in new] + records}
    unfinished = folder / f".{FILE}.{os.uname().nodename}-{os.getpid()}"
    try:
        unfinished.write_text(
            json.dumps({**content, "digest": json_digest(content)}, indent=1) + "\n", encoding="utf-8"
        )
        unfinished.replace(folder / FILE)
    except OSError as error:
        print(f"hpcai: statistics cannot be kept in {folder} ({error.strerror}): found anew each time", file=sys.stderr)


def _known(record: dict[str, Any]) -> PartStatistics:
    moments = Moments(record["count"], np.array(record["mean"]), np.array(record["squares"]))
    return PartStatistics(record["sha256"], moments)
