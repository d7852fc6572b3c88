"""Epilogue of a product on a CPU: batch norm with known moments, an addition, a ReLU, on results in the cache.

It runs the passes of channelwise.py, so that results are bit for bit those of the product followed by such a pass.
"""

from typing import Any, NamedTuple

from .channelwise import WIDE, apply_narrow, apply_wide, apply_with_narrow, apply_with_wide, floor
from .compiled import compiled
from .load_store import bytes_of
from .packing import LINE


class Epilogue(NamedTuple):
    """Operation, address and row pitch in bytes of the table of all channels, byte offset from a result to its addend.

    Results are at least `floor`, which has their type.
    """

    kind: int
    table: int
    apart: int
    other: int
    floor: Any


IDENTITY, NORMALISE, ADD = range(3)  # kinds; ADD: batch norm and an addition


def no_epilogue(one: Any) -> Epilogue | None:
    """The identity for numbers of the type of `one`; None for integers, which have no passes."""
    return Epilogue(IDENTITY, 0, 0, 0, one) if one.dtype.kind == "f" else None


def batch_norm(one: Any, table: int, channels: int, other: int | None, relu: bool) -> Epilogue:
    """Batch norm by a table of so many channels; `other`: offset of the addend, None without one."""
    kind, added = (NORMALISE, 0) if other is None else (ADD, other)
    return Epilogue(kind, table, channels * one.itemsize, added, floor(one, relu))


@compiled
def from_channel(like: Any, epilogue: Any, channel: Any) -> Any:
    """The epilogue for results whose first channel is `channel`."""
    if epilogue is not None:
        table = epilogue.table + channel * bytes_of(like)
        return Epilogue(epilogue.kind, table, epilogue.apart, epilogue.other, epilogue.floor)
    return epilogue


@compiled
def finish(like: Any, epilogue: Any, address: Any, pixels: Any, pitch: Any, channel: Any, channels: Any) -> None:
    """Apply the epilogue to `channels` channels from `channel` on, of `pixels` pixels that lie `pitch` bytes apart."""
    if epilogue is not None:
        _finish(like, epilogue, address, pixels, pitch, channel * bytes_of(like), channels * bytes_of(like))


@compiled
def _finish(like: Any, epilogue: Any, address: Any, pixels: Any, pitch: Any, first: Any, nbytes: Any) -> None:
    done = nbytes if epilogue.kind == IDENTITY else 0
    while done < nbytes:
        table, here = epilogue.table + first + done, address + done
        arrays = (here, here + epilogue.other, here, 0, 0)
        wide = done + WIDE * LINE <= nbytes
        if epilogue.kind == NORMALISE:
            if wide:
                apply_wide(epilogue.floor, pixels, pitch, table, epilogue.apart, arrays, 0)
            else:
                apply_narrow(epilogue.floor, pixels, pitch, table, epilogue.apart, arrays, 0)
        elif wide:
            apply_with_wide(epilogue.floor, pixels, pitch, table, epilogue.apart, arrays, 0)
        else:
            apply_with_narrow(epilogue.floor, pixels, pitch, table, epilogue.apart, arrays, 0)
        done += WIDE * LINE if wide else LINE
