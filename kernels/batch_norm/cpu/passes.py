"""Passes of batch normalisation over all pixels, by threads and in blocks that stay in the cache."""

from typing import Any, NamedTuple

from ...cpu.channel_sums import BLOCK, DOUBLE, ChannelSums, add_block, block_of, clear_sums
from ...cpu.channelwise import CACHED, ROWS, apply_pass
from ...cpu.compiled import compiled
from ...cpu.function_pointer import call_pointer
from ...cpu.load_store import bytes_of
from ...cpu.parallel import parallel_for
from ...cpu.simd import LINE

TABLE_ROWS = len(ROWS)


class Layer(NamedTuple):
    """Pixels, channels, and addresses of weights, biases, means and variances by channel."""

    pixels: int
    channels: int
    weight: int
    bias: int
    mean: int
    variance: int
    eps: float


class Workspace(NamedTuple):
    """The table, bytes from row to row of it, and the sums of all threads, which follow it."""

    table: int
    apart: int
    sums: ChannelSums


def workspace_nbytes(channels: int, itemsize: int, threads: int) -> int:
    """Bytes of a workspace."""
    sums = sums_behind(0, channels, itemsize)
    return sums.address + threads * sums.nbytes


def sums_behind(table: int, channels: int, itemsize: int) -> ChannelSums:
    """The sums of a workspace, by the address of its table."""
    row = channels * itemsize
    return ChannelSums(table + TABLE_ROWS * row, row, 2 * channels * (itemsize + DOUBLE) + LINE)


_sums_behind = compiled(sums_behind)


@compiled
def workspace_at(like: Any, table: Any, channels: Any) -> Workspace:
    """The workspace at an address."""
    return Workspace(table, channels * bytes_of(like), _sums_behind(table, channels, bytes_of(like)))


@compiled
def over_pixels(pointer: Any, threads: Any, kind: Any, floor: Any, layer: Any, memory: Any, arrays: Any) -> None:
    """A pass over all pixels by `sum_blocks`, separately for each thread, or by `pass_blocks`, as the pointer says."""
    part = (layer.pixels + threads - 1) // threads
    parallel_for(_part, threads, (pointer, part, kind, floor, layer, memory, arrays))


@compiled
def _part(
    thread: Any, pointer: Any, part: Any, kind: Any, floor: Any, layer: Any, memory: Any, arrays: Any
) -> None:
    first = min(thread * part, layer.pixels)
    here = (first, min(part, layer.pixels - first), thread)
    call_pointer(sum_blocks, pointer, (floor, kind, layer, memory, arrays, *here))


@compiled
def sum_blocks(
    floor: Any, kind: Any, layer: Any, memory: Any, arrays: Any, first: Any, count: Any, thread: Any
) -> None:
    """The sums of a thread over some pixels, block by block."""
    clear_sums(memory.sums, thread)
    at_once, block = max(1, BLOCK // memory.apart), block_of(memory.sums, thread)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _arrays_from(arrays, pixel * memory.apart)
        apply_pass(kind, floor, pixels, memory.apart, layer.channels, memory.table, memory.apart, here, block)
        add_block(floor, memory.sums, thread)


@compiled
def pass_blocks(
    floor: Any, kind: Any, layer: Any, memory: Any, arrays: Any, first: Any, count: Any, _thread: Any
) -> None:
    """A pass over some pixels, block by block, so that all channels of a block stay in the cache."""
    at_once = max(1, CACHED // memory.apart)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _arrays_from(arrays, pixel * memory.apart)
        apply_pass(kind, floor, pixels, memory.apart, layer.channels, memory.table, memory.apart, here, 0)


@compiled
def _arrays_from(arrays: Any, at: Any) -> Any:
    """The arrays from a byte offset on."""
    return (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)
