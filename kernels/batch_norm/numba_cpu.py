"""Batch normalisation on CPUs in Numba: one pass for the sums, one for the result with addition and ReLU."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..cpu.channel_sums import ChannelSums, add_block, clear_sums
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
    floor_of,
)
from ..cpu.compiled import compiled
from ..cpu.function_pointer import FunctionPointer, function_pointer
from ..cpu.load_store import read
from ..cpu.packing import copy_run
from ..cpu.program import STEP, WORD, bits
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
    layer: Layer, one: Any, x: int, other: int, y: int, relu: bool, threads: int, running: Running = NO_RUNNING
) -> None:
    """Fill y, mean and variance. Arrays are given by address and have the type of `one`; other = 0: no addition."""
    memory = _memory(layer, one.itemsize, threads)
    plan = forward_plan(one, layer.pixels, layer.channels, bool(other), threads)
    words = Stored.of_numbers(forward_words(plan, relu, memory, False, (x, other, y), layer[2:], running))
    _forward(one, words.address)


def forward_plan(one: Any, pixels: int, channels: int, added: bool, threads: int) -> Stored:
    """What stays the same in all forward passes of a layer."""
    kinds = MOMENTS, APPLY_WITH if added else APPLY
    return _planned(kinds, one.dtype.type, pixels, channels, threads)


def forward_words(
    plan: Stored, relu: bool, memory: Any, summed: bool, arrays: Sequence[Any], vectors: Sequence[Any],
    running: Sequence[Any],
) -> tuple[Any, ...]:
    """The arguments of a forward pass in memory. x, other and y; weight, bias, mean, variance and eps.

    memory: a workspace. summed: an epilogue has added x to its sums, which were 0. They are 0 after the pass.
    """
    *addresses, eps = vectors
    *moments, momentum = running
    return plan.address, relu, memory, summed, *arrays, *addresses, bits(eps), *moments, bits(momentum)


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
    relu: bool, threads: int,
) -> None:
    """Fill dx, dweight and dbias, and dother unless it is 0; dother needs y.

    The moments of the layer must be those of x.
    """
    memory = _memory(layer, one.itemsize, threads)
    plan = backward_plan(one, layer.pixels, layer.channels, bool(dother), threads)
    arrays, gradients = (g, x, y, dx, dother), (dweight, dbias)
    words = Stored.of_numbers(backward_words(plan, relu, memory, False, arrays, layer[2:], gradients))
    _backward(one, words.address)


def backward_plan(one: Any, pixels: int, channels: int, added: bool, threads: int) -> Stored:
    """What stays the same in all backward passes of a layer."""
    kinds = (SUM_WITH, GRADIENT_WITH) if added else (SUM, GRADIENT)
    return _planned(kinds, one.dtype.type, pixels, channels, threads)


def backward_words(
    plan: Stored, relu: bool, memory: Any, summed: Any, arrays: Sequence[Any], vectors: Sequence[Any],
    gradients: Sequence[Any],
) -> tuple[Any, ...]:
    """The arguments of a backward pass in memory. g, x, y, dx and dother; vectors as in `forward_words`.

    summed: an epilogue has added the gradient to the sums of the workspace, which were 0. They are 0 after the pass.
    """
    *addresses, eps = vectors
    return plan.address, relu, memory, summed, *arrays, *addresses, bits(eps), *gradients


def _memory(layer: Layer, itemsize: int, threads: int) -> int:
    """Address of a workspace until the next call."""
    return workspace(workspace_nbytes(layer.channels, itemsize, threads))


@lru_cache(KNOWN)
def _planned(kinds: tuple[int, int], kind: Any, pixels: int, channels: int, threads: int) -> Stored:
    """The stored plan of a layer for arrays of a type."""
    one = kind(1)
    layer, memory, arrays = Layer(0, 0, 0, 0, 0, 0, 0.0), Workspace(0, 0, ChannelSums(0, 0, 0)), (0, 0, 0, 0, 0)
    given = (one, 0, layer, memory, arrays, 0, 0, 0)
    summing, passing = function_pointer(sum_blocks, *given), function_pointer(pass_blocks, *given)
    return Stored(Plan(pixels, channels, threads, *kinds, summing, passing))


HEAD = 4  # words before the arrays
_read_stored, _read_head = reading(Plan), reading(*[int] * HEAD)
_read_forward, _read_backward = reading(*[int] * 7), reading(*[int] * 9)


@compiled
def _forward(like: Any, words: Any) -> None:
    """Sums are of differences to the first pixel, which limits cancellation where a channel is far from 0.

    Those that have been taken are of differences to 0: they are taken again if that is too far.
    """
    stored, relu, table, summed = _read_head(words)
    (plan,) = _read_stored(stored)
    x, other, y, weight, bias, mean, variance = _read_forward(words + HEAD * WORD)
    rest = words + (HEAD + 7) * WORD
    layer = Layer(plan.pixels, plan.channels, weight, bias, mean, variance, read(0.0, rest))
    running_mean, running_variance = read(0, rest + WORD), read(0, rest + 2 * WORD)
    floor, memory, none = floor_of(like, relu), workspace_at(like, table, plan.channels), x - x
    arrays = (x, other, y, none, none)
    if not (summed and _are_usable(floor, layer, memory, plan.threads)):
        copy_run(floor, memory.table + MEAN * memory.apart, x, plan.channels)
        over_pixels(plan.summing, plan.threads, plan.sum_kind, type(floor)(-math.inf), layer, memory, arrays)
    compute_moments(floor, layer, memory, plan.threads)
    _clear(memory, plan.threads)
    if running_mean:
        move_running(floor, layer, running_mean, running_variance, read(0.0, rest + 3 * WORD))
    over_pixels(plan.passing, plan.threads, plan.kind, floor, layer, memory, arrays)


@compiled
def _are_usable(floor: Any, layer: Any, memory: Any, threads: Any) -> Any:
    _complete(floor, memory, threads)
    return are_near(layer, memory, threads)


@compiled
def _complete(floor: Any, memory: Any, threads: Any) -> None:
    """Add the last blocks of an epilogue's sums."""
    for thread in range(threads):
        add_block(floor, memory.sums, thread)


@compiled
def _clear(memory: Any, threads: Any) -> None:
    for thread in range(threads):
        clear_sums(memory.sums, thread)


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
def _backward(like: Any, words: Any) -> None:
    stored, relu, table, summed = _read_head(words)
    (plan,) = _read_stored(stored)
    g, x, y, dx, dother, weight, bias, mean, variance = _read_backward(words + HEAD * WORD)
    rest = words + (HEAD + 9) * WORD
    layer = Layer(plan.pixels, plan.channels, weight, bias, mean, variance, read(0.0, rest))
    floor, memory, arrays = floor_of(like, relu), workspace_at(like, table, plan.channels), (x, g, y, dx, dother)
    fill_table(floor, layer, memory)
    if summed:
        _complete(floor, memory, plan.threads)
    else:
        over_pixels(plan.summing, plan.threads, plan.sum_kind, floor, layer, memory, arrays)
    compute_gradients(floor, layer, memory, plan.threads, read(0, rest + WORD), read(0, rest + 2 * WORD))
    _clear(memory, plan.threads)
    over_pixels(plan.passing, plan.threads, plan.kind, floor, layer, memory, arrays)


def instruction(backwards: bool, one: Any, words: Sequence[Any]) -> tuple[Any, ...]:
    """The instruction of a pass in a program."""
    return *function_pointer(_backward if backwards else _forward, one, 0), STEP, *words
