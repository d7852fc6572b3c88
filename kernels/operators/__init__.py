"""Custom convolution and matrix product as differentiable torch operators, for CPUs and GPUs.

Layers call `convolution` and `dense`. Each of their three products is by custom kernels or by torch: `custom` is the
set of custom directions. The operators support autocast and torch.compile, and FlopCounterMode counts them.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from ..spec import DIRECTIONS
from . import direct, fused_evaluation, int8, library, sequences  # noqa: F401 - registers its operators

ALL = frozenset(DIRECTIONS)


def convolution(x: Tensor, w: Tensor, window: Any, custom: Collection[str] = ALL) -> Tensor:
    """float[N, F, Ho, Wo], channels last, of float[N, C, H, W] and float[F, C / groups, Kh, Kw] of the same type.

    `window` has stride, padding, dilation and groups, as a `conv2d.Shape` or a layer of torch. fp64, fp32, and of 16
    bits fp16 and bf16, summed in fp32. RuntimeError if the sizes do not fit.
    """
    sides = (window.stride, window.padding, window.dilation, window.groups)
    compute = direct.convolution if direct.applies(x, w) else torch.ops.hpcai.convolution
    found: Tensor = compute(x, w, *sides, library.bits(custom))
    return found


def dense(x: Tensor, w: Tensor, custom: Collection[str] = ALL) -> Tensor:
    """float[..., outputs] of float[..., features] and float[outputs, features]; types as of `convolution`."""
    rows = x.reshape(-1, x.shape[-1])
    compute = direct.dense if direct.applies(x, w) else torch.ops.hpcai.dense
    found: Tensor = compute(rows, w, library.bits(custom))
    return found.view(*x.shape[:-1], -1)


def convolution_int8(x: Tensor, w: Tensor, window: Any, custom: Collection[str] = ALL) -> Tensor:
    """As `convolution`, of float32, by an int8 product, which is always custom.

    `custom` is the set of custom gradients. Each image and each filter has its own scale. The gradients are in fp32,
    those of the product of the dequantised operands. RuntimeError if the sizes do not fit, or int32 does not hold the
    sums.
    """
    sides = (window.stride, window.padding, window.dilation, window.groups)
    found: Tensor = torch.ops.hpcai.convolution_int8(x, w, *sides, library.bits(custom))[0]
    return found


def dense_int8(x: Tensor, w: Tensor, custom: Collection[str] = ALL) -> Tensor:
    """As `dense`, of float32, by an int8 product: each row and each output has a scale. See `convolution_int8`."""
    rows = x.reshape(-1, x.shape[-1])
    found: Tensor = torch.ops.hpcai.dense_int8(rows, w, library.bits(custom))[0]
    return found.view(*x.shape[:-1], -1)
