"""Checks of layers whose forward product is one of bytes: every sum exactly, and what training makes of them.

From outside such a layer is one of fp32. Its products are held against those, in float64, of what the bytes stand for
(kernels/quantise/reference.py), as `check` does with other types: so gradients are judged too. Besides, y must be to
the last bit what the exact sums and the scales give: an element that is not is wrong.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from . import conv2d, gemm, operators
from .check import Blocks, Provider, affordable, draw, residuals
from .conv2d import reference as conv2d_reference
from .conv2d import vendor as conv2d_vendor
from .gemm import reference as gemm_reference
from .gemm import vendor as gemm_vendor
from .quantise.reference import quantised, seen
from .residual import Residuals
from .spec import DIRECTIONS, FORWARD, Float32, S, Spec, Tensors


def check_convolution_of_bytes(
    shape: conv2d.Shape, device: str, seed: int, directions: Collection[str] = DIRECTIONS, ours: Collection[str] = ()
) -> tuple[Residuals, ...]:
    """Residuals of a convolution, one entry a direction; its gradients by our kernels where they are `ours`."""
    compute = partial(operators.convolution_int8, ours=ours)
    provider = Provider[conv2d.Shape](
        partial(conv2d_vendor.run, compute=compute), conv2d_vendor.slack, {FORWARD, *ours}
    )
    return _check(conv2d.SPEC, shape, provider, conv2d_reference.blocks, device, seed, directions)


def check_gemm_of_bytes(
    shape: gemm.Shape, device: str, seed: int, directions: Collection[str] = DIRECTIONS, ours: Collection[str] = ()
) -> tuple[Residuals, ...]:
    """Residuals of a dense layer; see `check_convolution_of_bytes`."""
    compute = partial(operators.dense_int8, ours=ours)
    provider = Provider[gemm.Shape](partial(gemm_vendor.run, compute=compute))
    return _check(gemm.SPEC, shape, provider, gemm_reference.blocks, device, seed, directions)


def _check(
    spec: Spec[S],
    shape: S,
    provider: Provider[S],
    blocks: Blocks[S],
    device: str,
    seed: int,
    directions: Collection[str],
) -> tuple[Residuals, ...]:
    checked = affordable(spec, shape)
    data = draw(checked, seed)
    results = provider.run(data, checked, device, directions)
    slack = {direction: provider.slack(checked, device, direction) for direction in directions}
    found = residuals(spec, (shape, checked), seen(data), results, blocks, slack, seed)
    wrong = wrong_elements(data, results[FORWARD], checked, blocks) if FORWARD in directions else 0
    return tuple(replace(each, wrong=wrong) if each.direction == FORWARD else each for each in found)


def wrong_elements(data: Tensors, y: Float32, shape: S, blocks: Blocks[S]) -> int:
    """Elements of y that are not float32(sum of q_x q_w) * (scale of x * scale of w), computed in fp32, bit by bit."""
    (x, of_x), (w, of_w) = quantised(data.x), quantised(data.w)
    scales = np.multiply.outer(of_x, of_w).reshape(*y.shape[:2], *[1] * (y.ndim - 2))
    factors = np.broadcast_to(scales, y.shape)
    numbers = Tensors(x.astype(np.float32), w.astype(np.float32), data.g)
    pairs = zip(*(blocks(FORWARD, numbers, out, shape) for out in (y, factors)), strict=True)
    return sum(_wrong(part.L @ part.R, part.C, factor.C) for part, factor in pairs)


def _wrong(sums: Any, found: Any, factors: Any) -> int:
    """Whole numbers below 2^53 are exact in float64, and so is all of fp32."""
    right = sums.astype(np.float32) * factors.astype(np.float32)
    return int(np.count_nonzero(found.astype(np.float32) != right))
