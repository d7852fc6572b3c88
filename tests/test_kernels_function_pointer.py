"""Compiled functions called by pointer: results, errors, and refusal of other argument types."""

from typing import Any

import numpy as np
import pytest

from hpcai.kernels.conv2d import Shape, numba_cpu
from hpcai.kernels.conv2d.cpu import direct, implicit_gemm, weight_gradient
from hpcai.kernels.conv2d.cpu import weight_gradient_few_channels as few_channels
from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.function_pointer import call_pointer, function_pointer
from hpcai.kernels.gemm.cpu import blocked


@compiled
def quotient(like: Any, a: Any, b: Any) -> Any:
    return like * (a // b)


@compiled
def called(pointer: Any, like: Any, a: Any, b: Any) -> Any:
    return call_pointer(quotient, pointer, (like, a, b))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_a_call_by_pointer_returns_the_same_as_a_call_by_name(kind: Any) -> None:
    pointer = function_pointer(quotient, kind(1), 1, 1)
    assert called(pointer, kind(3), 17, 5) == quotient(kind(3), 17, 5) == 9


def test_an_error_is_raised_in_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        called(function_pointer(quotient, np.float32(1), 1, 1), np.float32(1), 1, 0)


def test_arguments_of_other_types_are_refused() -> None:
    """Machine code would read them from the wrong registers."""
    with pytest.raises(TypeError, match=r"quotient.* has no machine code of \(float64, int64, int64\)"):
        called(function_pointer(quotient, np.float32(1), 1, 1), np.float64(1), 1, 1)


SHAPES = {
    implicit_gemm._multiply_part: ("forward", Shape(2, 17, 9, 8, 16, (3, 3), (1, 1), (1, 1))),
    direct._compute_rows: ("forward", Shape(2, 64, 7, 15, 64, (3, 3), (1, 1), (1, 1))),
    blocked.multiply_serially: ("forward", Shape(2, 64, 9, 9, 80, (1, 1))),
    weight_gradient._add_gradient: ("weight_gradient", Shape(1, 256, 5, 5, 64, (3, 3), (1, 1), (1, 1))),
    few_channels._add_gradient: ("weight_gradient", Shape(2, 3, 9, 9, 64, (7, 7), (2, 2), (3, 3))),
}


@pytest.mark.parametrize("function", SHAPES, ids=lambda function: function.__name__)
def test_one_thread_and_many_run_the_same_machine_code(function: Any) -> None:
    direction, shape = SHAPES[function]
    x, w, y = (np.zeros([size[axis] for axis in (0, 2, 3, 1)], np.float32) for size in (shape.x, shape.w, shape.y))
    for threads in (1, 2):
        compute = getattr(numba_cpu, direction)
        compute(*((x, w, y) if direction == "forward" else (x, y, w)), shape, threads)
    kinds = [signature[0] for signature in function.signatures]
    assert kinds and len(set(kinds)) == len(kinds)
