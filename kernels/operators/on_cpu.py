"""The operators' products on CPUs: Numba kernels on torch's memory, with torch's number of threads."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..batch_norm import numba_cpu as batch_norm
from ..conv2d import Shape, numba_cpu
from ..conv2d.cpu.geometry import ArrayLayout
from ..cpu import epilogue
from ..cpu.packing import Matrix
from ..cpu.stored_arguments import Stored
from ..gemm.cpu.blocked import multiply as multiply_matrices
from ..quantise import numba_cpu as rounding
from ..spec import FORWARD, INPUT_GRADIENT

LAST = torch.channels_last
Quantised = tuple[Tensor, Tensor, Tensor]
KINDS: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}
SIXTEEN = (torch.float16, torch.bfloat16)  # types computed in fp32, with conversion


def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Shape) -> None:
    """Fill the channels-last result from the two operands of a direction; types match."""
    if one.dtype in SIXTEEN:
        wide = torch.empty_like(result, dtype=torch.float32)
        convolve(direction, one.float(), other.float(), wide, shape)
        result.copy_(wide)
        return
    one, other = one.contiguous(memory_format=LAST), other.contiguous(memory_format=LAST)
    threads = torch.get_num_threads()
    x, w, y = {FORWARD: (one, other, result), INPUT_GRADIENT: (result, other, one)}.get(direction, (one, result, other))
    _planned(direction, shape, _kind(one), threads)(x.data_ptr(), w.data_ptr(), y.data_ptr())


def convolve_normalised(
    x: Tensor, w: Tensor, other: Tensor | None, y: Tensor, shape: Shape, vectors: list[Tensor], eps: float, relu: bool
) -> None:
    """Fill y, channels last, with the normalised convolution of x and w; one group, types match."""
    _check_vectors(x, shape.filters, vectors)
    x, w = x.contiguous(memory_format=LAST), w.contiguous(memory_format=LAST)
    kept = [vector.contiguous() for vector in vectors]
    added = None if other is None else other.contiguous(memory_format=LAST)
    one = _kind(x)(1)
    weight, bias, mean, variance = (vector.data_ptr() for vector in kept)
    table = batch_norm.evaluation_table(batch_norm.Layer(0, shape.filters, weight, bias, mean, variance, eps), one)
    further = None if added is None else added.data_ptr() - y.data_ptr()
    then = Stored.of_numbers(epilogue.batch_norm(one, table.ctypes.data, shape.filters, further, relu))
    planned = _planned(FORWARD, shape, _kind(x), torch.get_num_threads())
    planned(x.data_ptr(), w.data_ptr(), y.data_ptr(), then.address)


def _check_vectors(x: Tensor, filters: int, vectors: list[Tensor]) -> None:
    if any(vector.dtype != x.dtype for vector in vectors) or not batch_norm.applies(filters, x.itemsize):
        kinds = ", ".join(str(vector.dtype) for vector in vectors)
        raise RuntimeError(
            f"convolution and batch norm of {x.dtype} by {kinds} with {filters} filters; "
            "allowed: of one type, filters in whole vectors"
        )


def _array(tensor: Tensor) -> Any:
    return tensor.detach().permute(0, 2, 3, 1).numpy()


def _kind(tensor: Tensor) -> Any:
    if tensor.dtype not in KINDS:
        raise RuntimeError(f"products of {tensor.dtype} on a CPU; allowed: {', '.join(map(str, (*KINDS, *SIXTEEN)))}")
    return KINDS[tensor.dtype]


@lru_cache(numba_cpu.KNOWN)
def _planned(direction: str, shape: Shape, kind: Any, threads: int) -> numba_cpu.Planned:
    layouts = (_layout(size, kind().itemsize) for size in (shape.x, shape.w, shape.y))
    return numba_cpu.planned(direction, *layouts, shape, kind, threads)


@lru_cache(numba_cpu.KNOWN)
def computations(direction: str, shape: Shape, kind: Any, threads: int) -> list[numba_cpu.Computation]:
    """What computes a direction of one group, in a program: see `numba_cpu.computations`."""
    one = kind(1)
    x, w, y = (_layout(size, one.itemsize) for size in (shape.x, shape.w, shape.y))
    return numba_cpu.computations(direction, x, w, y, shape, one, threads)


def _layout(size: tuple[int, int, int, int], itemsize: int) -> ArrayLayout:
    """A dummy channels-last tensor of that size."""
    images, channels, height, width = size
    pixel = channels * itemsize
    strides = (height * width * pixel, width * pixel, pixel, itemsize)
    return ArrayLayout(0, (images, height, width, channels), strides, itemsize)


def multiply(a: Tensor, b: Tensor, result: Tensor) -> None:
    """Fill the row-major result with A B; types match."""
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


def convolve_bytes(x: Tensor, w: Tensor, shape: Shape) -> Quantised:
    """The int8 convolution y, and the scales of images and filters."""
    x, w = x.contiguous(memory_format=LAST), w.contiguous(memory_format=LAST)
    threads, (down, right) = torch.get_num_threads(), shape.padding
    (count, channels, height, width), (filters, own, *taps) = shape.x, shape.w
    pictures = rounding.Images(count, height, width, channels, shape.groups, down, right)
    q, scales = _bytes(x, pictures, False, threads)
    by, by_filter = _bytes(w, rounding.Images(filters, taps[0], taps[1], own), True, threads)
    sums, together = np.empty(filters, np.int32), q.shape[3]
    rounding.sums_of_filters(by.reshape(filters, -1), sums)
    y = torch.empty(shape.y, dtype=torch.float32, memory_format=LAST)
    whole = replace(shape, channels=together, height=q.shape[1], width=q.shape[2], padding=(0, 0))
    numba_cpu.forward_bytes(q, by, _array(y).view(np.int32), whole, threads)
    rounding.scale(y.data_ptr(), count, shape.y[2] * shape.y[3], scales, by_filter, sums, threads)
    return y, torch.from_numpy(scales), torch.from_numpy(by_filter)


def _bytes(tensor: Tensor, pictures: rounding.Images, signed: bool, threads: int) -> tuple[Any, Any]:
    q = np.empty(pictures.bytes_size, np.int8 if signed else np.uint8)
    scales = np.empty(pictures.images, np.float32)
    rounding.quantise(pictures, tensor.data_ptr(), q, scales, signed, threads)
    return q, scales


def multiply_bytes(x: Tensor, w: Tensor) -> Quantised:
    """The same for x w^T: rows are images of one pixel."""
    rows, outputs = len(x), len(w)
    shape = Shape(rows, x.shape[1], 1, 1, outputs, (1, 1))
    y, scales, by_output = convolve_bytes(x[:, :, None, None], w[:, :, None, None], shape)
    return y.view(rows, outputs), scales, by_output


def nearest(x: Tensor, scales: Tensor) -> Tensor:
    """Dequantised x: its bytes times the scales along the first dimension."""
    if (x.dtype, scales.dtype, scales.numel()) != (torch.float32, torch.float32, len(x)):
        raise RuntimeError(f"{x.dtype} by {scales.numel()} scales of {scales.dtype}; allowed: float32, {len(x)} scales")
    x = x.contiguous(memory_format=LAST) if x.ndim == 4 else x.contiguous()
    result = torch.empty_like(x)
    threads = torch.get_num_threads()
    rounding.nearest(x.data_ptr(), result.data_ptr(), scales.numpy(), x.numel() // max(len(x), 1), threads)
    return result
