"""Batch normalisation on CPUs in Numba: one pass for the sums, one for the result with addition and ReLU."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..cpu.channel_sums import ChannelSums, add_block, clear_sums, sums_at
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
    floor,
)
from ..cpu.compiled import compiled
from ..cpu.function_pointer import FunctionPointer, function_pointer
from ..cpu.packing import copy_run
from ..cpu.simd import lanes
from ..cpu.stored_arguments import Stored, reading
from ..cpu.workspace import workspace
from .cpu.passes import Layer, Workspace, over_pixels, pass_blocks, sum_blocks, workspace_at, workspace_nbytes
from .cpu.statistics import are_near, compute_gradients, compute_moments, fill_table, move_running

KNOWN = 4096  # cached plans


def applies(channels: int, itemsize: int) -> bool:
    """Whether the channels are a whole number of vectors."""
    return channels > 0 and channels % lanes(itemsize) == 0


class Running(NamedTuple):
    """Addresses of running mean and variance, which move by `momentum` towards those of a batch; 0: there are none."""

    mean: int
    variance: int
    momentum: float


NO_RUNNING = Running(0, 0, 0.0)


class Kept(NamedTuple):
    """A workspace that is kept from the forward pass to the backward pass: its address, and for how many threads it is.

    summed: an epilogue has added to its sums. Otherwise they are 0, and so they are after each pass.
    """

    address: int
    threads: int
    summed: bool


class Plan(NamedTuple):
    """What stays the same from call to call: passes that sum and that store, and their machine code."""

    pixels: int
    channels: int
    threads: int
    sum_kind: int
    kind: int
    summing: FunctionPointer
    passing: FunctionPointer


def forward(
    layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int, running: Running = NO_RUNNING,
    kept: Kept | None = None,
) -> None:
    """Fill y, mean and variance. Arrays are given by address and have the type of `one`; other = 0: no addition."""
    threads, memory, summed = _kept(kept, layer, one, threads)
    kinds = MOMENTS, APPLY_WITH if other else APPLY
    stored = _planned(kinds, one.dtype.type, layer.pixels, layer.channels, threads)
    _forward(floor(one, relu), stored.address, memory, summed, x, other, y, *layer[2:], *running)


def evaluate(layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int) -> None:
    """Fill y with a given mean and variance."""
    kinds = MOMENTS, APPLY_WITH if other else APPLY
    stored = _planned(kinds, one.dtype.type, layer.pixels, layer.channels, threads)
    _evaluate(floor(one, relu), stored.address, _memory(layer, one.itemsize, threads), x, other, y, *layer[2:])


def evaluation_table(layer: Layer, one: Any) -> Any:
    """The table that `evaluate` uses, [rows, channels] of the type of `one`, as an epilogue takes it."""
    table = np.zeros((len(ROWS), layer.channels), one.dtype)
    fill_table(one, layer, Workspace(table.ctypes.data, layer.channels * one.itemsize, ChannelSums(0, 0, 0)))
    return table


def backward(
    layer: Layer, one: Any, g: int, x: int, y: int, dx: int, dother: int, dweight: int, dbias: int,
    relu: bool, threads: int, kept: Kept | None = None,
) -> None:
    """Fill dx, dweight and dbias, and dother unless it is 0; dother needs y.

    The moments of the layer must be those of x; a workspace that is kept must be that of the forward pass.
    """
    threads, memory, summed = _kept(kept, layer, one, threads)
    kinds = (SUM_WITH, GRADIENT_WITH) if dother else (SUM, GRADIENT)
    stored = _planned(kinds, one.dtype.type, layer.pixels, layer.channels, threads)
    arrays = (g, x, y, dx, dother)
    _backward(floor(one, relu), stored.address, memory, summed, *arrays, *layer[2:], dweight, dbias)


def _kept(kept: Kept | None, layer: Layer, one: Any, threads: int) -> tuple[int, int, bool]:
    """Threads, address of the workspace, and whether its sums are taken."""
    if kept is None:
        return threads, _memory(layer, one.itemsize, threads), False
    return kept.threads, kept.address, kept.summed


def _memory(layer: Layer, itemsize: int, threads: int) -> int:
    """Address of a workspace until the next call."""
    return workspace(workspace_nbytes(layer.channels, itemsize, threads))


def sums_of(address: int, channels: int, itemsize: int) -> ChannelSums:
    """The sums of a workspace, to which an epilogue adds."""
    return sums_at(address + len(ROWS) * channels * itemsize, channels, itemsize)


@lru_cache(KNOWN)
def _planned(kinds: tuple[int, int], kind: Any, pixels: int, channels: int, threads: int) -> Stored:
    """The stored plan of a layer for arrays of a type."""
    one = kind(1)
    layer, memory, arrays = Layer(0, 0, 0, 0, 0, 0, 0.0), Workspace(0, 0, ChannelSums(0, 0, 0)), (0, 0, 0, 0, 0)
    given = (one, 0, layer, memory, arrays, 0, 0, 0)
    summing, passing = function_pointer(sum_blocks, *given), function_pointer(pass_blocks, *given)
    return Stored(Plan(pixels, channels, threads, *kinds, summing, passing))


_read_stored = reading(Plan)


@compiled
def _forward(
    floor: Any, stored: Any, table: Any, summed: Any, x: Any, other: Any, y: Any, weight: Any, bias: Any, mean: Any,
    variance: Any, eps: Any, running_mean: Any, running_variance: Any, momentum: Any,
) -> None:
    """Sums are of differences to the first pixel, which limits cancellation where a channel is far from 0.

    Those that have been taken are of differences to 0: they are taken again if that is too far.
    """
    (plan,) = _read_stored(stored)
    layer = Layer(plan.pixels, plan.channels, weight, bias, mean, variance, eps)
    memory, none = workspace_at(floor, table, plan.channels), x - x
    arrays = (x, other, y, none, none)
    if not (summed and _are_usable(floor, layer, memory, plan.threads)):
        copy_run(floor, memory.table + MEAN * memory.apart, x, plan.channels)
        over_pixels(plan.summing, plan.threads, plan.sum_kind, type(floor)(-math.inf), layer, memory, arrays)
    compute_moments(floor, layer, memory, plan.threads)
    _clear(floor, memory, plan.threads)
    if running_mean:
        move_running(floor, layer, running_mean, running_variance, momentum)
    over_pixels(plan.passing, plan.threads, plan.kind, floor, layer, memory, arrays)


@compiled
def _are_usable(floor: Any, layer: Any, memory: Any, threads: Any) -> Any:
    _complete(floor, memory, threads)
    return are_near(floor, layer, memory, threads)


@compiled
def _complete(floor: Any, memory: Any, threads: Any) -> None:
    """Add the last blocks of an epilogue's sums."""
    for thread in range(threads):
        add_block(floor, memory.sums, thread)


@compiled
def _clear(floor: Any, memory: Any, threads: Any) -> None:
    for thread in range(threads):
        clear_sums(floor, memory.sums, thread)


@compiled
def _evaluate(
    floor: Any, stored: Any, table: Any, x: Any, other: Any, y: Any, weight: Any, bias: Any, mean: Any, variance: Any,
    eps: Any,
) -> None:
    (plan,) = _read_stored(stored)
    layer = Layer(plan.pixels, plan.channels, weight, bias, mean, variance, eps)
    memory, none = workspace_at(floor, table, plan.channels), x - x
    fill_table(floor, layer, memory)
    over_pixels(plan.passing, plan.threads, plan.kind, floor, layer, memory, (x, other, y, none, none))


@compiled
def _backward(
    floor: Any, stored: Any, table: Any, summed: Any, g: Any, x: Any, y: Any, dx: Any, dother: Any, weight: Any,
    bias: Any, mean: Any, variance: Any, eps: Any, dweight: Any, dbias: Any,
) -> None:
    (plan,) = _read_stored(stored)
    layer = Layer(plan.pixels, plan.channels, weight, bias, mean, variance, eps)
    memory, arrays = workspace_at(floor, table, plan.channels), (x, g, y, dx, dother)
    fill_table(floor, layer, memory)
    if summed:
        _complete(floor, memory, plan.threads)
    else:
        over_pixels(plan.summing, plan.threads, plan.sum_kind, floor, layer, memory, arrays)
    compute_gradients(floor, layer, memory, plan.threads, dweight, dbias)
    _clear(floor, memory, plan.threads)
    over_pixels(plan.passing, plan.threads, plan.kind, floor, layer, memory, arrays)
