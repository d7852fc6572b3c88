"""What becomes of a product's results while they are near: batch norm by known moments, something added, a ReLU.

By the passes of `channels`, so that results are those of the product and of a pass over all of them, bit by bit.
"""

from typing import Any, NamedTuple

from .channelwise import WIDE, apply_narrow, apply_wide, apply_with_narrow, apply_with_wide, floor
from .compiled import compiled
from .load_store import bytes_of
from .packing import LINE


class Epilogue(NamedTuple):
    """What there is to do, the table of all channels, its rows `apart` bytes apart; from a result to what is added.

    Results are then at least `floor`, which is of their type.
    """

    kind: int
    table: int
    apart: int
    other: int
    floor: Any


NOTHING, NORMALISE, ADD = range(3)  # kinds: as it is, batch norm, and something added to that


def no_epilogue(one: Any) -> Epilogue | None:
    """Of numbers like `one`, which stay as they are; whole numbers have no passes."""
    return Epilogue(NOTHING, 0, 0, 0, one) if one.dtype.kind == "f" else None


def batch_norm(one: Any, table: int, channels: int, other: int | None, relu: bool) -> Epilogue:
    """By the table of so many channels; `other` is None where nothing is added."""
    kind, added = (NORMALISE, 0) if other is None else (ADD, other)
    return Epilogue(kind, table, channels * one.itemsize, added, floor(one, relu))


@compiled
def from_channel(like: Any, epilogue: Any, channel: Any) -> Any:
    """The epilogue of results whose first channel is this one."""
    if epilogue is not None:
        table = epilogue.table + channel * bytes_of(like)
        return Epilogue(epilogue.kind, table, epilogue.apart, epilogue.other, epilogue.floor)
    return epilogue


@compiled
def finish(like: Any, epilogue: Any, address: Any, pixels: Any, pitch: Any, channel: Any, channels: Any) -> None:
    """Channels from `channel` on, whose first number is at the address, of so many pixels `pitch` bytes apart."""
    if epilogue is not None:
        _finish(like, epilogue, address, pixels, pitch, channel * bytes_of(like), channels * bytes_of(like))


@compiled
def _finish(like: Any, epilogue: Any, address: Any, pixels: Any, pitch: Any, first: Any, nbytes: Any) -> None:
    done = nbytes if epilogue.kind == NOTHING else 0
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
