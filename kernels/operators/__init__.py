"""Our convolution and matrix product as operators of torch, with gradients, for CPUs and GPUs.

`convolution` and `dense` are what layers call. Each of their three products is ours or torch's, as `ours` says: a set
of directions. They know autocast and torch.compile, and FlopCounterMode counts them.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from ..spec import DIRECTIONS
from . import library

ALL = frozenset(DIRECTIONS)


def convolution(x: Tensor, w: Tensor, window: Any, ours: Collection[str] = ALL) -> Tensor:
    """float[N, F, Ho, Wo], channels last, of float[N, C, H, W] and float[F, C / groups, Kh, Kw] of the same type.

    `window` has stride, padding, dilation and groups, as a `conv2d.Shape` or a layer of torch. fp64, fp32, and of 16
    bits fp16 and bf16, summed in fp32. RuntimeError if the sizes do not fit.
    """
    sides = (window.stride, window.padding, window.dilation, window.groups)
    found: Tensor = torch.ops.hpcai.convolution(x, w, *sides, library.bits(ours))
    return found


def dense(x: Tensor, w: Tensor, ours: Collection[str] = ALL) -> Tensor:
    """float[..., outputs] of float[..., features] and float[outputs, features]; types as of `convolution`."""
    rows = x.reshape(-1, x.shape[-1])
    found: Tensor = torch.ops.hpcai.dense(rows, w, library.bits(ours))
    return found.view(*x.shape[:-1], -1)
