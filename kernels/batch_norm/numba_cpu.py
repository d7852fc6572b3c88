"""Batch normalisation on CPUs in Numba: one pass for the sums, one for the result with addition and ReLU."""

from typing import Any, NamedTuple

import numpy as np

from ..cpu.channelwise import (
    APPLY,
    APPLY_WITH,
    GRADIENT,
    GRADIENT_WITH,
    MEAN,
    MOMENTS,
    ROWS,
    SUM,
    SUM_WITH,
    apply_pass,
    floor,
)
from ..cpu.compiled import compiled
from ..cpu.function_pointer import FunctionPointer, call_pointer, function_pointer
from ..cpu.load_store import bytes_of, read, write
from ..cpu.packing import copy_run
from ..cpu.parallel import parallel_for
from ..cpu.simd import lanes
from ..cpu.workspace import workspace
from .cpu.statistics import DOUBLE, compute_gradients, compute_moments, fill_table

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


def applies(channels: int, itemsize: int) -> bool:
    """Whether the channels are a whole number of vectors."""
    return channels > 0 and channels % lanes(itemsize) == 0


def forward(layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int) -> None:
    """Fill y, mean and variance. Arrays are given by address and have the type of `one`; other = 0: no addition."""
    memory, arrays, floor_ = _workspace(layer, one.itemsize, threads), (x, other, y, 0, 0), floor(one, relu)
    pointer = _addresses(floor_, layer, memory, arrays)
    _forward(pointer, threads, APPLY_WITH if other else APPLY, floor(one, False), floor_, layer, memory, arrays)


def evaluate(layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int) -> None:
    """Fill y with a given mean and variance."""
    memory, arrays, floor_ = _workspace(layer, one.itemsize, threads), (x, other, y, 0, 0), floor(one, relu)
    fill_table(one, layer, memory)
    pointer = _addresses(floor_, layer, memory, arrays).passing
    _pass(pointer, threads, APPLY_WITH if other else APPLY, floor_, layer, memory, arrays)


def evaluation_table(layer: Layer, one: Any) -> Any:
    """The table that `evaluate` uses, [rows, channels] of the type of `one`, as an epilogue takes it."""
    table = np.zeros((len(ROWS), layer.channels), one.dtype)
    fill_table(one, layer, Workspace(table.ctypes.data, layer.channels * one.itemsize, 0, 0, 0))
    return table


def backward(
    layer: Layer, one: Any, g: int, x: int, y: int, dx: int, dother: int, dweight: int, dbias: int,
    relu: bool, threads: int,
) -> None:
    """Fill dx, dweight and dbias, and dother unless it is 0; dother needs y.

    The moments of the layer must be those of x.
    """
    memory, arrays, floor_ = _workspace(layer, one.itemsize, threads), (x, g, y, dx, dother), floor(one, relu)
    kinds = (SUM_WITH, GRADIENT_WITH) if dother else (SUM, GRADIENT)
    pointer = _addresses(floor_, layer, memory, arrays)
    _backward(pointer, threads, kinds, floor_, layer, memory, arrays, dweight, dbias)


def _workspace(layer: Layer, itemsize: int, threads: int) -> Workspace:
    apart = layer.channels * itemsize
    per_thread = 2 * apart + 2 * layer.channels * DOUBLE
    table = workspace(len(ROWS) * apart + threads * per_thread)
    block = table + len(ROWS) * apart
    return Workspace(table, apart, block, block + 2 * apart, per_thread)


class Addresses(NamedTuple):
    """Pointers to the machine code of a pass that sums and of one that does not."""

    summing: FunctionPointer
    passing: FunctionPointer


def _addresses(floor: Any, layer: Layer, memory: Workspace, arrays: tuple[int, ...]) -> Addresses:
    given = (floor, 0, layer, memory, arrays, 0, 0)
    return Addresses(function_pointer(_sum_blocks, *given, 0), function_pointer(_pass_blocks, *given))


@compiled
def _forward(
    pointer: Any, threads: Any, kind: Any, no_floor: Any, floor: Any, layer: Any, memory: Any, arrays: Any
) -> None:
    """Sums are of differences to the first pixel, which limits cancellation where a channel is far from 0."""
    copy_run(floor, memory.table + MEAN * memory.apart, arrays[0], layer.channels)
    _sum(pointer.summing, threads, MOMENTS, no_floor, layer, memory, arrays)
    compute_moments(floor, layer, memory, threads)
    _pass(pointer.passing, threads, kind, floor, layer, memory, arrays)


@compiled
def _backward(
    pointer: Any, threads: Any, kinds: Any, floor: Any, layer: Any, memory: Any, arrays: Any, dweight: Any, dbias: Any
) -> None:
    fill_table(floor, layer, memory)
    _sum(pointer.summing, threads, kinds[0], floor, layer, memory, arrays)
    compute_gradients(floor, layer, memory, threads, dweight, dbias)
    _pass(pointer.passing, threads, kinds[1], floor, layer, memory, arrays)


@compiled
def _sum(pointer: Any, threads: Any, kind: Any, floor: Any, layer: Any, memory: Any, arrays: Any) -> None:
    """Sums over all pixels, separately for each thread."""
    part = (layer.pixels + threads - 1) // threads
    parallel_for(_sum_part, threads, (pointer, part, kind, floor, layer, memory, arrays))


@compiled
def _sum_part(
    thread: Any, pointer: Any, part: Any, kind: Any, floor: Any, layer: Any, memory: Any, arrays: Any
) -> None:
    first = min(thread * part, layer.pixels)
    per_thread = (first, min(part, layer.pixels - first), thread * memory.nbytes)
    call_pointer(_sum_blocks, pointer, (floor, kind, layer, memory, arrays, *per_thread))


@compiled
def _sum_blocks(
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
def _pass(pointer: Any, threads: Any, kind: Any, floor: Any, layer: Any, memory: Any, arrays: Any) -> None:
    """A pass without sums."""
    part = (layer.pixels + threads - 1) // threads
    parallel_for(_pass_part, threads, (pointer, part, kind, floor, layer, memory, arrays))


@compiled
def _pass_part(
    thread: Any, pointer: Any, part: Any, kind: Any, floor: Any, layer: Any, memory: Any, arrays: Any
) -> None:
    first = min(thread * part, layer.pixels)
    call_pointer(_pass_blocks, pointer, (floor, kind, layer, memory, arrays, first, min(part, layer.pixels - first)))


@compiled
def _pass_blocks(floor: Any, kind: Any, layer: Any, memory: Any, arrays: Any, first: Any, count: Any) -> None:
    """A pass over some pixels, block by block, so that all channels of a block stay in the cache."""
    at_once = max(1, CACHED // memory.apart)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _arrays_from(arrays, pixel * memory.apart)
        apply_pass(kind, floor, pixels, memory.apart, layer.channels, memory.table, memory.apart, here, memory.block)


@compiled
def _arrays_from(arrays: Any, at: Any) -> Any:
    """The arrays from a byte offset on."""
    return (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)
