"""Machine code called by its address: right results, errors that arrive, and never arguments of other types."""

from typing import Any

import numpy as np
import pytest

from hpcai.kernels.conv2d import Shape, numba_cpu
from hpcai.kernels.conv2d.cpu import direct as slide
from hpcai.kernels.conv2d.cpu import implicit_gemm as correlate
from hpcai.kernels.conv2d.cpu import weight_gradient as weigh
from hpcai.kernels.conv2d.cpu import weight_gradient_few_channels as weigh_few
from hpcai.kernels.cpu.compiled import compiled
from hpcai.kernels.cpu.function_pointer import address_of, call_at
from hpcai.kernels.gemm import numba_cpu as gemm


@compiled
def quotient(like: Any, a: Any, b: Any) -> Any:
    return like * (a // b)


@compiled
def called(there: Any, like: Any, a: Any, b: Any) -> Any:
    return call_at(quotient, there, (like, a, b))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_what_is_called_by_its_address_gives_what_it_gives_by_its_name(kind: Any) -> None:
    there = address_of(quotient, kind(1), 1, 1)
    assert called(there, kind(3), 17, 5) == quotient(kind(3), 17, 5) == 9


def test_its_errors_are_those_of_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        called(address_of(quotient, np.float32(1), 1, 1), np.float32(1), 1, 0)


def test_arguments_of_other_types_are_refused() -> None:
    """They would be taken from registers in which they are not."""
    with pytest.raises(TypeError, match=r"quotient.* has no machine code of \(float64, int64, int64\)"):
        called(address_of(quotient, np.float32(1), 1, 1), np.float64(1), 1, 1)


SHAPES = {
    correlate._correlate: ("forward", Shape(2, 17, 9, 8, 16, (3, 3), (1, 1), (1, 1))),
    slide._slide: ("forward", Shape(2, 64, 7, 15, 64, (3, 3), (1, 1), (1, 1))),
    gemm._multiply: ("forward", Shape(2, 64, 9, 9, 80, (1, 1))),
    weigh._weigh: ("weight_gradient", Shape(1, 256, 5, 5, 64, (3, 3), (1, 1), (1, 1))),
    weigh_few._weigh_few: ("weight_gradient", Shape(2, 3, 9, 9, 64, (7, 7), (2, 2), (3, 3))),
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
