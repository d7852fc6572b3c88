"""The pass over published fields for digests and statistics, divided among the ranks."""

import hashlib
import sys
import zlib
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcai.clock import now
from hpcai.data.weather import box_orientation
from hpcai.data.weather.layout import CHANNELS
from hpcai.data.weather.moments import Moments, of_frame
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.year_file import Part, inflating_threads
from hpcai.errors import DataError

if TYPE_CHECKING:
    from mpi4py import MPI

PAUSE = 30.0  # seconds between two lines of progress

Unit = tuple[int, int, int]  # number of the part, first frame, the one after the last
Found = tuple[list[bytes], list[int], Moments]  # SHA-256 and CRC-32 of each frame


class Survey(NamedTuple):
    """Result of the pass over a part: SHA-256 (hexadecimal) of its fields and boxes, CRC-32 of its frames, moments."""

    sha256: str
    sums: list[int]
    moments: Moments


def survey(parts: Sequence[Part], comm: "MPI.Comm | None") -> list[Survey]:
    """Digest and moments of each part, the same whatever the number of ranks. Collective over `comm`.

    Raises DataError, Refused on every rank, for fields that are not finite, and for boxes with x and y exchanged.
    """
    units = [(number, *block) for number, part in enumerate(parts) for block in part.blocks()]
    own: dict[Unit, Found] = {}
    rank, ranks = (0, 1) if comm is None else (comm.rank, comm.size)

    def work() -> None:
        years = list({part.year.path: part.year for part in parts}.values())
        for year in years[rank::ranks]:
            box_orientation.check(year)
        printed = now()
        for unit in units[rank::ranks]:
            own[unit] = _found(parts[unit[0]], *unit[1:])
            if rank == 0 and now() - printed >= PAUSE:
                printed = now()
                print(f"hpcai: statistics of {len(own) * ranks} of {len(units)} blocks", file=sys.stderr, flush=True)

    every = _by_all(comm, work, own)
    return [_survey(part, [every[unit] for unit in units if unit[0] == number]) for number, part in enumerate(parts)]


def _by_all(comm: "MPI.Comm | None", work: Callable[[], None], own: dict[Unit, Found]) -> dict[Unit, Found]:
    if comm is None:
        work()
        return own
    from hpcai.comm.world import on_all_ranks

    on_all_ranks(comm, work)
    return {unit: found for part in comm.allgather(own) for unit, found in part.items()}


def _found(part: Part, begin: int, stop: int) -> Found:
    fields = np.empty((stop - begin, *part.year.shape), np.float32)
    part.year.read(begin, stop, fields, ReadCounters(), inflating_threads())
    moments = [of_frame(frame) for frame in fields]
    for number, each in enumerate(moments, begin):
        if not np.isfinite(each.squares).all():
            channel = CHANNELS[int(np.flatnonzero(~np.isfinite(each.squares))[0])]
            raise DataError(f"{part.year.path}: {channel} of frame {number} is not finite; allowed: finite fields")
    digests = [hashlib.sha256(frame.astype("<f4", copy=False).data).digest() for frame in fields]
    return digests, [*map(crc, fields)], reduce(add, moments)


def crc(frame: NDArray[np.float32]) -> int:
    """CRC-32 of a frame, little-endian."""
    return zlib.crc32(frame.astype("<f4", copy=False).data)


def _survey(part: Part, found: Sequence[Found]) -> Survey:
    digest = hashlib.sha256(f"{(len(part), *part.year.shape)}\n".encode())
    for digests, _, _ in found:
        digest.update(b"".join(digests))
    digest.update(part.boxes.astype("<i4").tobytes())
    sums = [each for _, part_sums, _ in found for each in part_sums]
    return Survey(digest.hexdigest(), sums, reduce(add, (moments for *_, moments in found)))
