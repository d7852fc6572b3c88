"""A convolution and the batch norm that follows it as one operator of torch, where the moments are known.

That is evaluation: there are no gradients. What the convolution makes is normalised, added to and made at least 0 while
it is near: on CPUs the numbers are those of one operator after the other, bit by bit.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.library import Library
from torch.utils.flop_counter import register_flop_formula

from . import direct, library, normalisation, products
from .library import NAME, WINDOW

FORM = (
    "convolution_normalised(Tensor x, Tensor w, Tensor? other, Tensor weight, Tensor bias, Tensor mean, "
    f"Tensor variance, float eps, bool relu, {WINDOW}) -> Tensor"
)
ON_GPUS = (torch.float32, torch.float16, torch.bfloat16)
_library = Library(NAME, "FRAGMENT")
_ours: Any = torch.ops.hpcai


def applies(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether the operator can compute this custom layer for these images, with the layers that follow it."""
    return (
        not (layer.training or torch.is_grad_enabled() or torch.compiler.is_compiling())
        and (layer.groups, layer.bias, layer.weight.dtype) == (1, None, x.dtype)
        and products.has_epilogue()
        and not torch.is_autocast_enabled(x.device.type)
        and (x.dtype in ON_GPUS if x.is_cuda else normalisation.takes(x, layer.out_channels))
    )


def fits(norm: nn.BatchNorm2d, x: Tensor, other: Tensor | None) -> bool:
    """Whether the operator can include this batch norm after such a layer, and the addition."""
    known = not norm.training and (norm.weight.dtype == x.dtype or (x.is_cuda and norm.weight.dtype == torch.float32))
    return known and (other is None or other.dtype == x.dtype)


def convolution_normalised(
    layer: nn.Conv2d, x: Tensor, norm: nn.BatchNorm2d, other: Tensor | None, relu: bool
) -> Tensor:
    """Convolution, batch norm, and optionally addition and ReLU; RuntimeError if the sizes do not fit."""
    known = (norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.eps)
    window = (layer.stride, layer.padding, layer.dilation, layer.groups)
    compute = products.convolution_normalised if direct.applies(x, other) else _ours.convolution_normalised
    made: Tensor = compute(x, layer.weight, other, *known, relu, *window)
    return made


def _like(x: Tensor, w: Tensor, *rest: Any) -> Tensor:
    return library.convolved(x, w, *rest[-4:])


def _operations(x: Sequence[int], w: Sequence[int], *rest: Any, out_shape: Any, **_: Any) -> int:
    """FLOP of the convolution, as without the fused layers."""
    return 2 * int(out_shape[0] * out_shape[2] * out_shape[3]) * int(torch.Size(w).numel())


library.define(_library, (FORM,), {"convolution_normalised": products.convolution_normalised}, {
    "convolution_normalised": _like
})
register_flop_formula(_ours.convolution_normalised)(_operations)
