"""Batch normalisation in Numba: pixels once for the sums, once more for the result, whatever follows included."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..cpu.channelwise import (
    APPLY,
    APPLY_WITH,
    FACTOR,
    GRADIENT,
    GRADIENT_WITH,
    LEVEL,
    MEAN,
    MOMENTS,
    ROWS,
    SHIFT,
    SLOPE,
    SUM,
    SUM_WITH,
    TILT,
    floor,
    over_channels,
)
from ..cpu.compiled import compiled
from ..cpu.function_pointer import There, address_of, call_at
from ..cpu.load_store import bytes_of, read, write
from ..cpu.packing import copy_run
from ..cpu.parallel import in_team
from ..cpu.simd import lanes
from ..cpu.workspace import workspace

BLOCK = 2**15  # bytes of pixels that are summed in their own type; blocks are added up in fp64
NEAR = 2**14  # bytes of pixels whose channels are all computed before the next ones are
DOUBLE = 8  # bytes


class Layer(NamedTuple):
    """Pixels and channels, and the addresses of the channels' weights and biases, and of where their moments go."""

    pixels: int
    channels: int
    weight: int
    bias: int
    mean: int
    variance: int
    eps: float


class Room(NamedTuple):
    """Of the workspace: the table, then of each thread the sums of a block, and all its sums in fp64."""

    table: int
    apart: int
    block: int
    sums: int
    nbytes: int  # from one thread's to the next


def applies(channels: int, itemsize: int) -> bool:
    """Whether the channels are whole vectors."""
    return channels > 0 and channels % lanes(itemsize) == 0


def forward(layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int) -> None:
    """Fill y, mean and variance; arrays by their addresses, all of the type of `one`, other = 0 if nothing is added."""
    room, arrays, least = _room(layer, one.itemsize, threads), (x, other, y, 0, 0), floor(one, relu)
    each = _addresses(least, layer, room, arrays)
    _forward(each, threads, APPLY_WITH if other else APPLY, floor(one, False), least, layer, room, arrays)


def evaluate(layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int) -> None:
    """Fill y by the mean and variance that are given."""
    room, arrays, least = _room(layer, one.itemsize, threads), (x, other, y, 0, 0), floor(one, relu)
    _know(one, layer, room)
    each = _addresses(least, layer, room, arrays).passing
    _pass(each, threads, APPLY_WITH if other else APPLY, least, layer, room, arrays)


def known(layer: Layer, one: Any) -> Any:
    """The table that `evaluate` makes, [rows, channels] of the type of `one`: what an epilogue takes."""
    table = np.zeros((len(ROWS), layer.channels), one.dtype)
    _know(one, layer, Room(table.ctypes.data, layer.channels * one.itemsize, 0, 0, 0))
    return table


def backward(
    layer: Layer, one: Any, g: int, x: int, y: int, dx: int, dother: int, dweight: int, dbias: int,
    relu: bool, threads: int,
) -> None:
    """Fill dx, dweight and dbias, and dother unless it is 0, which needs y; the layer's moments are those of x."""
    room, arrays, least = _room(layer, one.itemsize, threads), (x, g, y, dx, dother), floor(one, relu)
    kinds = (SUM_WITH, GRADIENT_WITH) if dother else (SUM, GRADIENT)
    each = _addresses(least, layer, room, arrays)
    _backward(each, threads, kinds, least, layer, room, arrays, dweight, dbias)


def _room(layer: Layer, itemsize: int, threads: int) -> Room:
    apart = layer.channels * itemsize
    own = 2 * apart + 2 * layer.channels * DOUBLE
    table = workspace(len(ROWS) * apart + threads * own)
    block = table + len(ROWS) * apart
    return Room(table, apart, block, block + 2 * apart, own)


class Addresses(NamedTuple):
    """Where the machine code of passes is, of one that sums and of one that does not."""

    summing: There
    passing: There


def _addresses(floor: Any, layer: Layer, room: Room, arrays: tuple[int, ...]) -> Addresses:
    given = (floor, 0, layer, room, arrays, 0, 0)
    return Addresses(address_of(_sum_blocks, *given, 0), address_of(_pass_blocks, *given))


@compiled
def _forward(each: Any, threads: Any, kind: Any, nothing: Any, floor: Any, layer: Any, room: Any, arrays: Any) -> None:
    """Sums are of distances from the first pixel, so that little is lost where a channel is far from 0."""
    copy_run(floor, room.table + MEAN * room.apart, arrays[0], layer.channels)
    _sum(each.summing, threads, MOMENTS, nothing, layer, room, arrays)
    _know_moments(floor, layer, room, threads)
    _pass(each.passing, threads, kind, floor, layer, room, arrays)


@compiled
def _backward(
    each: Any, threads: Any, kinds: Any, floor: Any, layer: Any, room: Any, arrays: Any, dweight: Any, dbias: Any
) -> None:
    _know(floor, layer, room)
    _sum(each.summing, threads, kinds[0], floor, layer, room, arrays)
    _know_gradients(floor, layer, room, threads, dweight, dbias)
    _pass(each.passing, threads, kinds[1], floor, layer, room, arrays)


@compiled
def _sum(each: Any, threads: Any, kind: Any, floor: Any, layer: Any, room: Any, arrays: Any) -> None:
    """All pixels' sums, by each thread of its own."""
    share = (layer.pixels + threads - 1) // threads
    in_team(_sum_share, threads, (each, share, kind, floor, layer, room, arrays))


@compiled
def _sum_share(thread: Any, each: Any, share: Any, kind: Any, floor: Any, layer: Any, room: Any, arrays: Any) -> None:
    first = min(thread * share, layer.pixels)
    own = (first, min(share, layer.pixels - first), thread * room.nbytes)
    call_at(_sum_blocks, each, (floor, kind, layer, room, arrays, *own))


@compiled
def _sum_blocks(
    floor: Any, kind: Any, layer: Any, room: Any, arrays: Any, first: Any, count: Any, further: Any
) -> None:
    """The sums of some pixels, block by block, into those of a thread."""
    channels, block, sums = layer.channels, room.block + further, room.sums + further
    for place in range(2 * channels):
        write(0.0, sums + place * DOUBLE)
    at_once = max(1, BLOCK // room.apart)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _from(arrays, pixel * room.apart)
        over_channels(kind, floor, pixels, room.apart, channels, room.table, room.apart, here, block)
        for place in range(2 * channels):
            to = sums + place * DOUBLE
            write(read(0.0, to) + read(floor, block + place * bytes_of(floor)), to)


@compiled
def _pass(each: Any, threads: Any, kind: Any, floor: Any, layer: Any, room: Any, arrays: Any) -> None:
    """A pass that sums nothing."""
    share = (layer.pixels + threads - 1) // threads
    in_team(_pass_share, threads, (each, share, kind, floor, layer, room, arrays))


@compiled
def _pass_share(thread: Any, each: Any, share: Any, kind: Any, floor: Any, layer: Any, room: Any, arrays: Any) -> None:
    first = min(thread * share, layer.pixels)
    call_at(_pass_blocks, each, (floor, kind, layer, room, arrays, first, min(share, layer.pixels - first)))


@compiled
def _pass_blocks(floor: Any, kind: Any, layer: Any, room: Any, arrays: Any, first: Any, count: Any) -> None:
    """Some pixels, block by block: all their channels while they are near."""
    at_once = max(1, NEAR // room.apart)
    for pixel in range(first, first + count, at_once):
        pixels, here = min(at_once, first + count - pixel), _from(arrays, pixel * room.apart)
        over_channels(kind, floor, pixels, room.apart, layer.channels, room.table, room.apart, here, room.block)


@compiled
def _from(arrays: Any, at: Any) -> Any:
    """The arrays from so many bytes on."""
    return (arrays[0] + at, arrays[1] + at, arrays[2] + at, arrays[3] + at, arrays[4] + at)


@compiled
def _know_moments(like: Any, layer: Any, room: Any, threads: Any) -> None:
    """Mean and variance from the sums, then the table from them."""
    size = bytes_of(like)
    for channel in range(layer.channels):
        mean = _total(room, layer, threads, channel) / layer.pixels
        square = _total(room, layer, threads, layer.channels + channel) / layer.pixels
        _write(like, read(like, room.table + MEAN * room.apart + channel * size) + mean, layer.mean + channel * size)
        _write(like, max(square - mean * mean, 0.0), layer.variance + channel * size)
    _know(like, layer, room)


@compiled
def _know(like: Any, layer: Any, room: Any) -> None:
    """What the forward pass is made with."""
    size = bytes_of(like)
    for channel in range(layer.channels):
        at = channel * size
        root = math.sqrt(read(like, layer.variance + at) + layer.eps)
        _write(like, read(like, layer.mean + at), room.table + MEAN * room.apart + at)
        _write(like, read(like, layer.weight + at) / root, room.table + FACTOR * room.apart + at)
        _write(like, read(like, layer.bias + at), room.table + SHIFT * room.apart + at)


@compiled
def _know_gradients(like: Any, layer: Any, room: Any, threads: Any, dweight: Any, dbias: Any) -> None:
    """The gradients of weight and bias from the sums, and what that of x is made with."""
    size = bytes_of(like)
    for channel in range(layer.channels):
        at = channel * size
        plain = _total(room, layer, threads, channel)
        centred = _total(room, layer, threads, layer.channels + channel)
        square = read(like, layer.variance + at) + layer.eps
        slope = read(like, layer.weight + at) / math.sqrt(square)
        _write(like, plain, dbias + at)
        _write(like, centred / math.sqrt(square), dweight + at)
        _write(like, slope, room.table + SLOPE * room.apart + at)
        _write(like, -slope * centred / (square * layer.pixels), room.table + TILT * room.apart + at)
        _write(like, -slope * plain / layer.pixels, room.table + LEVEL * room.apart + at)


@compiled
def _total(room: Any, layer: Any, threads: Any, place: Any) -> Any:
    """All threads' sums."""
    total = 0.0
    for thread in range(threads):
        total += read(0.0, room.sums + thread * room.nbytes + place * DOUBLE)
    return total


@compiled
def _write(like: Any, number: Any, address: Any) -> None:
    write(type(like)(number), address)
