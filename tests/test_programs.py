"""Programs: what they compute, with addresses that are known when they run; the products of a program and of Python."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from hpcai.kernels.conv2d import Shape
from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.function_pointer import function_pointer
from hpcai.kernels.cpu.load_store import read, write
from hpcai.kernels.cpu.program import GIVEN, PROGRAM, STEP, WORD, WORDS, Address, Program, bits
from hpcai.kernels.cpu.workspace import workspace
from hpcai.kernels.operators import on_cpu
from hpcai.kernels.operators.block_plan import Rows
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

ONE = np.float32(1)
LAST = torch.channels_last
SHAPES = (
    Shape(2, 16, 9, 20, 32, (3, 3), (1, 1), (1, 1)),  # few channels
    Shape(2, 32, 9, 9, 64, (3, 3), (2, 2), (1, 1)),  # phases of the input gradient
    Shape(3, 64, 6, 7, 32, (1, 1)),  # a matrix product
    Shape(3, 32, 8, 8, 48, (1, 1), (2, 2)),  # pixels that no tap reaches
    Shape(1, 128, 5, 5, 96, (3, 3), (1, 1), (1, 1)),
)


@compiled
def add(like: Any, words: Any) -> None:
    """Add to a number: what it points to, the integer and the number that follow."""
    target = read(0, words)
    write(type(like)(read(like, target) + read(0, words + WORD) + read(0.0, words + 2 * WORD)), target)


def instruction(*arguments: Any) -> tuple[Any, ...]:
    return *function_pointer(add, ONE, 0), STEP, *arguments


def test_instructions_run_in_order_with_the_addresses_of_each_run() -> None:
    to, apart = Address(GIVEN), Address(GIVEN + 1, 8, GIVEN)  # the second base less the first, plus 8
    program = Program(ONE, [], [instruction(to, 2, bits(0.5)), instruction(to, apart, bits(-1.0))])
    numbers = np.zeros(3, np.float32)
    for at in range(3):
        address = numbers[at:].ctypes.data
        program.run([address, address + 100 * at])
    assert numbers.tolist() == [9.5, 109.5, 209.5]


def test_rows_are_at_their_addresses_in_copies_as_well() -> None:
    own = Address(PROGRAM, WORD)  # the second word of the first row
    program = Program(ONE, [(7, 40)], [instruction(own, 1, bits(0.0))])
    held = program._held[0, 1:2].view(np.float32)
    held[0] = 3
    deepcopy(program).run([])
    assert held[0] == 4 and len(program._held[0]) == WORDS


def filled(size: tuple[int, ...], seed: int) -> torch.Tensor:
    drawn = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return drawn.contiguous(memory_format=LAST)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_products_bits_are_the_same_in_a_program(shape: Shape, direction: str, threads: int) -> None:
    arrays = {name: filled(size, seed) for seed, (name, size) in enumerate(
        (("x", shape.x), ("w", shape.w), ("y", shape.y))
    )}
    made = {FORWARD: "y", INPUT_GRADIENT: "x", WEIGHT_GRADIENT: "w"}[direction]
    one, other = {FORWARD: ("x", "w"), INPUT_GRADIENT: ("y", "w"), WEIGHT_GRADIENT: ("x", "y")}[direction]
    rows, right = Rows(ONE), torch.full_like(arrays[made], torch.nan)
    order = ("y", "w", "x") if direction == INPUT_GRADIENT else ("x", "w", "y")
    rows.add_product(direction, shape, threads, [rows.at(name) for name in order])
    named, before = rows.named(made), torch.get_num_threads()
    torch.set_num_threads(threads)
    on_cpu.convolve(direction, arrays[one], arrays[other], right, shape)
    torch.set_num_threads(before)
    arrays[made].fill_(torch.nan)
    found = {**{name: array.data_ptr() for name, array in arrays.items()}, "memory": workspace(named.nbytes)}
    named.program.run([found[name] for name in named.names])
    assert not right.isnan().any()
    if shape.kernel == (1, 1) and direction != WEIGHT_GRADIENT:  # without split-K, which an epilogue cannot wait for
        torch.testing.assert_close(arrays[made], right)
    else:
        assert torch.equal(arrays[made], right)
