"""A program: calls of compiled functions, one after the other, whose arguments lie in memory; Python calls it once.

An instruction is a row of WORDS integers: the function's pointer, its kind, and its arguments, those of `product` (what
computes a convolution or a matrix product) or those that a function reads itself from the address it is given (`step`).
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .compiled import compiled
from .function_pointer import FunctionPointer, call_pointer
from .load_store import read
from .parallel import parallel_for

WORD = 8  # bytes
WORDS = 24  # of a row
PRODUCT, STEP = range(2)  # kinds
FIRST = 3  # index of the first argument
ZERO, PROGRAM = range(2)  # bases: address 0, and that of the program itself
GIVEN = 2  # the first base that is given at each run


class Address(NamedTuple):
    """A number that is known when the program runs: that of a base, plus an offset, less that of another base."""

    base: int
    offset: int = 0
    less: int = ZERO


Number = int | Address


@compiled
def product(
    like: Any, plan: Any, threads: Any, source: Any, weights: Any, target: Any, memory: Any, epilogue: Any
) -> None:
    """The type of the functions of the kind PRODUCT; this one computes nothing."""


@compiled
def step(like: Any, words: Any) -> None:
    """The type of those of the kind STEP; this one computes nothing."""


@compiled
def _run(like: Any, first: Any, count: Any) -> None:
    """Run `count` instructions from an address on; `like` has the type of all arrays."""
    for at in range(first, first + count * WORDS * WORD, WORDS * WORD):
        pointer, given = FunctionPointer(read(0, at), read(0, at + WORD)), at + FIRST * WORD
        if read(0, at + 2 * WORD) == PRODUCT:
            operands = (read(0, given + 2 * WORD), read(0, given + 3 * WORD), read(0, given + 4 * WORD))
            memory, epilogue = read(0, given + 5 * WORD), read(0, given + 6 * WORD)
            call_pointer(product, pointer, (like, read(0, given), read(0, given + WORD), *operands, memory, epilogue))
        else:
            call_pointer(step, pointer, (like, given))


@compiled
def _run_on_threads(like: Any, first: Any, count: Any, threads: Any) -> None:
    parallel_for(_run_part, threads, (like, first, count // threads))


@compiled
def _run_part(thread: Any, like: Any, first: Any, count: Any) -> None:
    _run(like, first + thread * count * WORDS * WORD, count)


class Program:
    """Instructions, behind rows that they refer to."""

    def __init__(
        self, one: Any, others: Sequence[Sequence[Number]], instructions: Sequence[Sequence[Number]],
        kept: Sequence[Any] = (), threads: int = 1,
    ) -> None:
        """one: 1 of the type of all arrays. kept: what has the memory that the instructions refer to, such as plans.

        threads: of which each runs an equal share of the instructions.
        """
        self._kept, self._threads = kept, threads
        rows = [*others, *instructions]
        known = [number for row in rows for number in row if isinstance(number, Address)]
        self._one, self._count = one, len(instructions)
        self._held = np.zeros((len(rows), WORDS), np.int64)
        for held, row in zip(self._held, rows, strict=True):
            held[: len(row)] = [0 if isinstance(number, Address) else number for number in row]
        self._flat, self._address = self._held.reshape(-1), int(self._held.ctypes.data)
        self._first = self._address + len(others) * WORDS * WORD
        self._places = np.array([
            number * WORDS + column for number, row in enumerate(rows) for column, each in enumerate(row)
            if isinstance(each, Address)
        ], np.int64)
        self._bases, self._offsets, self._less = np.array(known, np.int64).reshape(-1, 3).T.copy()

    def run(self, bases: Sequence[int]) -> None:
        """bases: from GIVEN on."""
        given = np.array([0, self._address, *bases], np.int64)
        self._flat[self._places] = given[self._bases] + self._offsets - given[self._less]
        if self._threads == 1:
            _run(self._one, self._first, self._count)
        else:
            _run_on_threads(self._one, self._first, self._count, self._threads)

    def __deepcopy__(self, _memo: Any) -> "Program":
        return self  # its rows refer to each other


def row(number: int) -> Address:
    """The address of a row of a program."""
    return Address(PROGRAM, number * WORDS * WORD)


def bits(number: float) -> int:
    """The integer with the bits of a number in fp64."""
    (integer,) = struct.unpack("q", struct.pack("d", number))
    return int(integer)
