"""The operators' products on a GPU: our kernels on torch's memory and stream."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..conv2d import Shape, cupy_gpu
from ..cuda.convolution_tensors import Window
from ..gemm.cupy_gpu import gemm
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

Computed = Callable[[Tensor, Tensor, Tensor, str, Window], None]
TYPES = {torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16"}
COMPUTED: dict[str, Computed] = {
    FORWARD: cupy_gpu.forward,
    INPUT_GRADIENT: cupy_gpu.input_gradient,
    WEIGHT_GRADIENT: cupy_gpu.weight_gradient,
}


def convolve(direction: str, one: Tensor, other: Tensor, result: Tensor, shape: Shape) -> None:
    """Fill the result of the two operands of a direction; types fit."""
    window = Window(shape.stride, shape.padding, shape.dilation, shape.groups)
    COMPUTED[direction](one, other, result, _type(one), window)


def multiply(a: Tensor, b: Tensor, result: Tensor) -> None:
    """Fill the result with A B; types fit."""
    gemm(a, b, result, _type(a))


def _type(tensor: Tensor) -> str:
    """tf32 of fp32 tensors where the process computes in it."""
    if tensor.dtype == torch.float32:
        return "tf32" if torch.backends.cuda.matmul.allow_tf32 else "fp32"
    if tensor.dtype not in TYPES:
        raise RuntimeError(f"products of {tensor.dtype}; allowed: torch.float32, {', '.join(map(str, TYPES))}")
    return TYPES[tensor.dtype]
