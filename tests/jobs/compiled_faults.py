"""Faults in machine code, which a program of a block calls as Python does: runs of numbers that a product loses, terms
that a batch norm lacks.
"""

from typing import Any, NamedTuple

import numpy as np

from hpcai.kernels.batch_norm import numba_cpu as batch_norm
from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.function_pointer import function_pointer
from hpcai.kernels.cpu.load_store import bytes_of, read, write
from hpcai.kernels.cpu.program import PRODUCT
from hpcai.kernels.cpu.stored_arguments import Stored, reading

_forward, _backward, HEAD, WORD = batch_norm._forward, batch_norm._backward, batch_norm.HEAD, batch_norm.WORD


class Lost(NamedTuple):
    """Numbers of a result that become 0: `runs` runs of `length` numbers, `apart` numbers from each to the next."""

    first: int
    runs: int
    apart: int
    length: int
    into_weights: int


_read_lost, _read_plan = reading(Lost), reading(batch_norm.Plan)


@compiled
def _lose(
    like: Any, plan: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    (lost,) = _read_lost(plan)
    size = bytes_of(like)
    begin = (weights if lost.into_weights else target) + lost.first * size
    for run in range(lost.runs):
        for number in range(lost.length):
            write(like - like, begin + (run * lost.apart + number) * size)


def lose(lost: Lost, one: Any, address: int) -> None:
    """Lose numbers of the array at an address; `one` has their type."""
    plan = Stored(lost)
    _lose(one, plan.address, 1, 0, address, address, 0, 0)


def losing(plan: Stored, one: Any, *arrays: Any) -> tuple[Any, ...]:
    """The instruction that loses numbers of a product; plan: of a `Lost`."""
    return *function_pointer(_lose, one, 0, 0, 0, 0, 0, 0, 0), PRODUCT, plan.address, 1, *arrays, 0, 0


@compiled
def forward_with_variance_of_a_population(like: Any, words: Any) -> None:
    """The running variance moves towards the batch's, not towards a sample's."""
    _forward(like, words)
    (plan,) = _read_plan(read(0, words))
    variance, running = read(0, words + (HEAD + 6) * WORD), read(0, words + (HEAD + 9) * WORD)
    momentum = read(0.0, words + (HEAD + 10) * WORD)
    surplus = momentum * (plan.pixels / max(plan.pixels - 1, 1) - 1)
    for at in range(0, plan.channels * bytes_of(like), bytes_of(like)):
        write(type(like)(read(like, running + at) - surplus * read(like, variance + at)), running + at)


@compiled
def backward_without_the_mean(like: Any, words: Any) -> None:
    """The gradient of x lacks the term of the mean."""
    _backward(like, words)
    (plan,) = _read_plan(read(0, words))
    size, dx = bytes_of(like), read(0, words + (HEAD + 3) * WORD)
    weight, variance = read(0, words + (HEAD + 5) * WORD), read(0, words + (HEAD + 8) * WORD)
    eps, dbias = read(0.0, words + (HEAD + 9) * WORD), read(0, words + (HEAD + 11) * WORD)
    for channel in range(plan.channels):
        at = channel * size
        slope = read(like, weight + at) / np.sqrt(read(like, variance + at) + eps)
        lost = slope * read(like, dbias + at) / plan.pixels
        for pixel in range(plan.pixels):
            here = dx + (pixel * plan.channels + channel) * size
            write(type(like)(read(like, here) + lost), here)
