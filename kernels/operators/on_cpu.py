"""The operators' products on a CPU: the Numba kernels on torch's memory, with as many threads as torch has."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..conv2d import Shape, numba_cpu
from ..cpu import depthwise
from ..cpu.operands import Matrix
from ..cpu.walk import Lying
from ..gemm.numba_cpu import multiply as multiply_matrices
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

LAST = torch.channels_last
KINDS: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}
SIXTEEN = (torch.float16, torch.bfloat16)  # computed in fp32, from and to these
COMPUTED = {
    FORWARD: numba_cpu.forward,
    INPUT_GRADIENT: numba_cpu.input_gradient,
    WEIGHT_GRADIENT: numba_cpu.weight_gradient,
}


def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Shape) -> None:
    """Fill the result, whose channels are last, of the two operands of a direction; types fit."""
    if one.dtype in SIXTEEN:
        wide = torch.empty_like(result, dtype=torch.float32)
        convolve(direction, one.float(), other.float(), wide, shape)
        result.copy_(wide)
        return
    one, other = one.contiguous(memory_format=LAST), other.contiguous(memory_format=LAST)
    threads = torch.get_num_threads()
    if depthwise.applies(shape):
        COMPUTED[direction](_array(one), _array(other), _array(result), shape, threads)
        return
    x, w, y = {FORWARD: (one, other, result), INPUT_GRADIENT: (result, other, one)}.get(direction, (one, result, other))
    _planned(direction, shape, _kind(one), threads)(x.data_ptr(), w.data_ptr(), y.data_ptr())


def _array(tensor: Tensor) -> Any:
    return tensor.detach().permute(0, 2, 3, 1).numpy()


def _kind(tensor: Tensor) -> Any:
    if tensor.dtype not in KINDS:
        raise RuntimeError(f"products of {tensor.dtype} on a CPU; allowed: {', '.join(map(str, (*KINDS, *SIXTEEN)))}")
    return KINDS[tensor.dtype]


@lru_cache(numba_cpu.KNOWN)
def _planned(direction: str, shape: Shape, kind: Any, threads: int) -> Callable[[int, int, int], None]:
    lying = (_lying(size, kind().itemsize) for size in (shape.x, shape.w, shape.y))
    return numba_cpu.planned(direction, *lying, shape, kind, threads)


def _lying(size: tuple[int, int, int, int], itemsize: int) -> Lying:
    """A tensor of that size whose channels are last, anywhere."""
    images, channels, height, width = size
    pixel = channels * itemsize
    strides = (height * width * pixel, width * pixel, pixel, itemsize)
    return Lying(0, (images, height, width, channels), strides, itemsize)


def multiply(a: Tensor, b: Tensor, result: Tensor) -> None:
    """Fill the result, by rows, with A B; types fit."""
    if a.dtype in SIXTEEN:
        wide = torch.empty_like(result, dtype=torch.float32)
        multiply(a.float(), b.float(), wide)
        result.copy_(wide)
        return
    kind = _kind(a)
    multiply_matrices(kind(1), kind(0), _matrix(a), _matrix(b), _matrix(result), torch.get_num_threads())


def _matrix(tensor: Tensor) -> Matrix:
    (rows, columns), (down, right), size = tensor.shape, tensor.stride(), tensor.itemsize
    return Matrix(tensor.data_ptr(), rows, columns, down * size, right * size)
