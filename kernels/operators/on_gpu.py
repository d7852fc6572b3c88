"""The operators' products on GPUs: custom kernels on torch's memory and stream."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..conv2d import Shape, cupy_gpu
from ..conv2d.cuda.tensors import Window
from ..gemm.cupy_gpu import gemm
from ..quantise import HIGHEST, LEAST
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

LAST = torch.channels_last
Quantised = tuple[Tensor, Tensor, Tensor]
Computed = Callable[[Tensor, Tensor, Tensor, str, Window], None]
TYPES = {torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16"}
COMPUTED: dict[str, Computed] = {
    FORWARD: cupy_gpu.forward,
    INPUT_GRADIENT: cupy_gpu.input_gradient,
    WEIGHT_GRADIENT: cupy_gpu.weight_gradient,
}


def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Shape) -> None:
    """Fill the result from the two operands of a direction; types match."""
    window = Window(shape.stride, shape.padding, shape.dilation, shape.groups)
    COMPUTED[direction](one, other, result, _type(one), window)


def convolve_normalised(
    x: Tensor, w: Tensor, other: Tensor | None, y: Tensor, shape: Shape, vectors: list[Tensor], eps: float, relu: bool
) -> None:
    """Fill y with the normalised convolution of x and w, in 32 or 16 bits; types match."""
    weight, bias, mean, variance = (vector.float() for vector in vectors)
    scale = weight * torch.rsqrt(variance + eps)
    window = Window(shape.stride, shape.padding, shape.dilation, shape.groups)
    bias = bias - mean * scale
    cupy_gpu.forward(x, w, y, _type(x), window, bias=bias, scale=scale, added=other, relu=relu)


def multiply(a: Tensor, b: Tensor, result: Tensor) -> None:
    """Fill the result with A B; types match."""
    gemm(a, b, result, _type(a))


def _type(tensor: Tensor) -> str:
    """tf32 for fp32 tensors if the process uses it."""
    if tensor.dtype == torch.float32:
        return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "fp32"
    if tensor.dtype not in TYPES:
        raise RuntimeError(f"products of {tensor.dtype}; allowed: torch.float32, {', '.join(map(str, TYPES))}")
    return TYPES[tensor.dtype]


def convolve_bytes(x: Tensor, w: Tensor, shape: Shape) -> Quantised:
    """The int8 convolution y, and the scales of images and filters."""
    (q, scales), (by, by_filter) = _quantised(x), _quantised(w)
    sums = torch.empty(shape.y, dtype=torch.int32, device=x.device, memory_format=LAST)
    cupy_gpu.forward(q, by, sums, "int8", Window(shape.stride, shape.padding, shape.dilation, shape.groups))
    return _scaled(sums, scales, by_filter), scales, by_filter


def multiply_bytes(x: Tensor, w: Tensor) -> Quantised:
    """The same for x w^T."""
    (q, scales), (by, by_output) = _quantised(x), _quantised(w)
    sums = torch.empty(len(x), len(w), dtype=torch.int32, device=x.device)
    gemm(q, by.t(), sums, "int8")
    return _scaled(sums, scales, by_output), scales, by_output


def _scaled(sums: Tensor, scales: Tensor, by_filter: Tensor) -> Tensor:
    factors = scales[:, None] * by_filter
    return sums * factors.view(*factors.shape, *[1] * (sums.ndim - 2))


def _quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8, and the scales along the first dimension; see kernels/quantise. NaN has the scale NaN."""
    largest = torch.linalg.vector_norm(x, float("inf"), dim=tuple(range(1, x.ndim)))
    scales = torch.where(largest < LEAST, 0.0, largest / HIGHEST)
    return _whole(x, scales).to(torch.int8), scales


def _whole(x: Tensor, scales: Tensor) -> Tensor:
    factors = torch.where(scales == 0, 0.0, 1.0 / scales)
    return (x * _along(factors, x)).round_()


def nearest(x: Tensor, scales: Tensor) -> Tensor:
    """Dequantised x: its bytes times the scales along the first dimension."""
    return _whole(x, scales).mul_(_along(scales, x))


def _along(vector: Tensor, x: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (x.ndim - 1))
