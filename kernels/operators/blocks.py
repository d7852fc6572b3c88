"""Convolutions, each with its batch norm, addition and ReLU, as one function of torch: a residual block in training.

The kernels are those of `direct.convolution` and `direct.batch_norm`, called by a program (block_program.py): neither
Python nor torch's graph nor a check of sizes comes between them, which costs a tenth of the step of a small network.
Products take the sums of the batch norms beside them as well, so that results differ by the rounding of these.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..conv2d import Shape
from . import direct, normalisation, on_cpu, products
from .block_function import BlockFunction, Programs, norm_before
from .block_plan import Layer, plan

Size = tuple[int, ...]


Custom = Callable[[Size], bool]  # whether all products of a layer are custom, for images of this size


class Block:
    """Layers of which the last one's result is the block's."""

    def __init__(self, layers: Sequence[Layer], custom: Sequence[Custom]) -> None:
        """custom: of each layer."""
        self.layers, self._custom = tuple(layers), tuple(custom)
        self._known: dict[Any, Programs | None] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """The result, channels last, for training; `applies` must hold. Running moments move."""
        programs = self._programs(x)
        parameters = [
            each for layer in self.layers for each in (layer.convolution.weight, layer.norm.weight, layer.norm.bias)
        ]
        made: Tensor = BlockFunction.apply(programs, norm_before(x), x, *parameters)
        return made

    def applies(self, x: Tensor) -> bool:
        """Whether it can compute these images, by the kernels that compute its layers one by one."""
        return (
            x.device.type == "cpu"
            and torch.is_grad_enabled()
            and direct.applies(x)
            and products.has_epilogue()
            and not torch.autograd._profiler_enabled()  # which shows layers by their names
            and all(_is_plain(layer, x) for layer in self.layers)
            and self._programs(x) is not None
        )

    def _programs(self, x: Tensor) -> Programs | None:
        """The programs for such images; None if some product is not custom, or has groups."""
        numbers = tuple((layer.norm.eps, layer.norm.momentum) for layer in self.layers)
        key = tuple(x.shape), x.dtype, torch.get_num_threads(), numbers
        if key not in self._known:
            self._known[key] = self._written(x)
        return self._known[key]

    def _written(self, x: Tensor) -> Programs | None:
        shapes = tuple(self._shapes(tuple(x.shape)))
        every = all(custom(shape.x) for custom, shape in zip(self._custom, shapes, strict=True))
        if not every or any(shape.groups > 1 for shape in shapes):
            return None
        programs = Programs(plan(self.layers, shapes, on_cpu.KINDS[x.dtype](1), torch.get_num_threads()))
        return programs if programs.are_possible() else None

    def _shapes(self, size: Size) -> list[Shape]:
        sizes, found = [size], []
        for layer in self.layers:
            part = layer.convolution
            window = (part.stride, part.padding, part.dilation, part.groups)
            found.append(products.shape_of(sizes[layer.source], part.weight.shape, *window))
            sizes.append(found[-1].y)
        return found


def _is_plain(layer: Layer, x: Tensor) -> bool:
    """Whether a layer is in training, of the images' type, without hooks, and its kernels exist."""
    convolution, norm = layer.convolution, layer.norm
    return (
        norm.training
        and convolution.weight.dtype == norm.weight.dtype == x.dtype
        and convolution.bias is None
        and norm.momentum is not None
        and norm.running_mean is not None
        and norm.running_mean.is_contiguous()
        and normalisation.takes(x, convolution.out_channels)
        and not any(part._forward_hooks or part._forward_pre_hooks for part in (convolution, norm))
    )
