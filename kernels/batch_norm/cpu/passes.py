"""Passes of batch normalisation over all pixels, by threads and in blocks that stay in the cache."""

from typing import Any, NamedTuple

from ...cpu.channelwise import ROWS, apply_pass
from ...cpu.compiled import compiled
from ...cpu.function_pointer import call_pointer
from ...cpu.load_store import bytes_of, read, write
from ...cpu.parallel import parallel_for

DOUBLE = 8  # bytes
TABLE_ROWS = len(ROWS)
BLOCK = 2**15  # bytes of pixels that are summed in their own type; sums of blocks are added in fp64
CACHED = 2**14  # bytes of pixels of a block of a pass, which stays in L1


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
    """Workspace: the table, then for each thread the sums of a block and its total sums in fp64."""

    table: int
    apart: int
    block: int
    sums: int
    nbytes: int  # bytes from thread to thread


@compiled
def laid_out(like: Any, channels: Any, table: Any) -> Workspace:
    """The workspace of a layer from its table on."""
    apart = channels * bytes_of(like)
    block = table + TABLE_ROWS * apart
    return Workspace(table, apart, block, block + 2 * apart, 2 * apart + 2 * channels * DOUBLE)


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
    per_thread = (first, min(part, layer.pixels - first), thread * memory.nbytes)
    call_pointer(sum_blocks, pointer, (floor, kind, layer, memory, arrays, *per_thread))


@compiled
def sum_blocks(
    floor: Any, kind: Any, layer: Any, memory: Any, arrays: Any, first: Any, count: Any, thread_offset: Any
) -> None:
    """Sums over some pixels, block by block, added to the sums of a thread."""
    channels, block, sums = layer.channels, memory.block + thread_offset, memory.sums + thread_offset
    for place in range(2 * channels):
        write(0.0, sums + place * DOUBLE)
    at_once = max(1, BLOCK // memory.apart)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _arrays_from(arrays, pixel * memory.apart)
        apply_pass(kind, floor, pixels, memory.apart, channels, memory.table, memory.apart, here, block)
        for place in range(2 * channels):
            to = sums + place * DOUBLE
            write(read(0.0, to) + read(floor, block + place * bytes_of(floor)), to)


@compiled
def pass_blocks(
    floor: Any, kind: Any, layer: Any, memory: Any, arrays: Any, first: Any, count: Any, _offset: Any
) -> None:
    """A pass over some pixels, block by block, so that all channels of a block stay in the cache."""
    at_once = max(1, CACHED // memory.apart)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _arrays_from(arrays, pixel * memory.apart)
        apply_pass(kind, floor, pixels, memory.apart, layer.channels, memory.table, memory.apart, here, memory.block)


@compiled
def _arrays_from(arrays: Any, at: Any) -> Any:
    """The arrays from a byte offset on."""
    return (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)
