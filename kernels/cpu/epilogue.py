"""Epilogue of a product on a CPU: a pass of channelwise.py over results that are still in the cache.

In evaluation it is batch norm with an addition and a ReLU: results are bit for bit those of the product followed by
the pass. In training it takes the sums that batch norm needs, of results or of their gradients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .channel_sums import ChannelSums, block_of, count_pixels
from .channelwise import (
    ADDED,
    APPLY,
    APPLY_WITH,
    CACHED,
    MOMENTS,
    SUM,
    SUM_ADDED,
    SUM_WITH,
    SUM_WITH_ADDED,
    apply_pass,
    floor_of,
)
from .compiled import compiled
from .function_pointer import FunctionPointer, call_pointer, function_pointer
from .load_store import bytes_of
from .parallel import thread_number
from .stored_arguments import reading

NONE = 0  # address of no epilogue
NO_SUMS = ChannelSums(0, 0, 0)


class Beside(NamedTuple):
    """Byte offsets from a result to the other arrays of a pass."""

    x: int
    other: int
    y: int
    dother: int


class Epilogue(NamedTuple):
    """Machine code, the pass, whether results are at least 0, and the table of all channels with its row pitch."""

    run: FunctionPointer
    kind: int
    relu: int
    table: int
    apart: int
    beside: Beside
    sums: ChannelSums


Numbers = tuple[Any, ...]  # of an `Epilogue`, one after the other, as they lie in memory


def batch_norm(one: Any, table: int, channels: int, other: int | None, relu: bool) -> Numbers:
    """Batch norm by a table of so many channels; `other`: offset of the addend, None without one."""
    kind, beside = (APPLY, (0, 0, 0, 0)) if other is None else (APPLY_WITH, (0, other, 0, 0))
    return *_run_of(one), kind, relu, table, channels * one.itemsize, *beside, *NO_SUMS


def moments(one: Any, table: Any, channels: int, sums: ChannelSums) -> Numbers:
    """Add the results and their squares to sums; the means of the table must be 0."""
    return *_run_of(one), MOMENTS, False, table, channels * one.itemsize, 0, 0, 0, 0, *sums


def gradients(
    one: Any, table: Any, channels: int, x: Any, y: Any | None, added: Any | None, relu: bool, sums: ChannelSums
) -> Numbers:
    """The sums of the gradient of a batch norm's y, the results; its table has the moments of x.

    x, y: offsets of its arrays; y only if something was added to it before the ReLU. added: that of a gradient which is
    added to the results first.
    """
    kind = ((SUM, SUM_ADDED) if y is None else (SUM_WITH, SUM_WITH_ADDED))[added is not None]
    return *_run_of(one), kind, relu, table, channels * one.itemsize, x, 0, y or 0, added or 0, *sums


def addition(one: Any, channels: int, added: Any) -> Numbers:
    """Add an array, at this offset, to the results."""
    return *_run_of(one), ADDED, False, 0, channels * one.itemsize, 0, 0, 0, added, *NO_SUMS


def _run_of(one: Any) -> FunctionPointer:
    return function_pointer(_RUNS[type(one)], 0, 0, 0, 0, 0, 0)


_read_run, _read_stored = reading(FunctionPointer), reading(Epilogue)


@compiled
def finish(epilogue: Any, address: Any, pixels: Any, pitch: Any, channel: Any, channels: Any) -> None:
    """Apply the epilogue at an address, unless that is NONE, to `channels` channels from `channel` on.

    The results of these begin at `address`, those of the next one of `pixels` pixels `pitch` bytes later.
    """
    if epilogue:
        (run,) = _read_run(epilogue)
        call_pointer(_run_single, run, (epilogue, address, pixels, pitch, channel, channels))


def _run_for(one: Any) -> Callable[..., None]:
    """The machine code for results of the type of `one`; its arguments are integers for every type."""

    @compiled
    def run(stored: Any, address: Any, pixels: Any, pitch: Any, channel: Any, channels: Any) -> None:
        (epilogue,) = _read_stored(stored)
        size, beside, sums, thread = bytes_of(one), epilogue.beside, epilogue.sums, thread_number()
        least = floor_of(one, epilogue.relu)
        table, out = epilogue.table + channel * size, block_of(sums, thread) + channel * size
        at_once = max(1, CACHED // (channels * size))
        for pixel in range(0, pixels, at_once):
            at, count = address + pixel * pitch, min(at_once, pixels - pixel)
            arrays = (at + beside.x, at + beside.other, at + beside.y, at, at + beside.dother)
            apply_pass(epilogue.kind, least, count, pitch, channels, table, epilogue.apart, arrays, out)
            if sums.address:
                count_pixels(one, sums, thread, count * channels * size)

    return run


_run_single, _run_double = _run_for(np.float32(1)), _run_for(np.float64(1))
_RUNS: dict[type, Callable[..., None]] = {np.float32: _run_single, np.float64: _run_double}
