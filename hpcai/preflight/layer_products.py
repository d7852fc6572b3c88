"""The products (convolutions, matrix products) of a network's training step, by shape; without MPI."""

from collections.abc import Collection
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from hpcai.inputfile.split import Cut
from hpcai.kernels.arithmetic import FP32, Arithmetic
from hpcai.kernels.check import check_layer
from hpcai.kernels.conv2d import Shape as ConvolutionShape
from hpcai.kernels.gemm import Shape as ProductShape
from hpcai.kernels.layers import LayerShape, affordable, spec_of
from hpcai.kernels.residual import Residuals
from hpcai.kernels.spec import DIRECTIONS, INPUT_GRADIENT
from hpcai.networks.graph import Graph
from hpcai.opcount.products import shapes_of
from hpcai.opcount.stages import parts_of

Product = tuple[LayerShape, tuple[str, ...]]  # a layer's shape, and the directions in a training step


def products(graph: Graph, batch: int) -> list[Product]:
    """The distinct convolution and dense products of a training step, in the order of the layers."""
    return [*products_of_parts(graph, Cut(samples=batch))]


def products_of_parts(graph: Graph, cut: Cut) -> dict[Product, Product]:
    """The products of all ranks that share a network, each with that of the first shard in the same layer."""
    first, *others = (_of_shard(graph, cut, shard) for shard in range(cut.shards))
    return {own: of_first for part in (first, *others) for own, of_first in zip(part, first, strict=True)}


def _of_shard(graph: Graph, cut: Cut, shard: int) -> list[Product]:
    """Of all stages in turn."""
    return [shape for part in parts_of(graph, cut, shard) for shape in shapes_of(part.graph, cut.samples)]


def checked_operations(product: Product) -> int:
    """Operations of the directions of a product, at the batch used in its check."""
    shape, directions = product
    return len(directions) * spec_of(shape).operations(affordable(shape))


def check(
    product: Product, device: torch.device, seed: int, arithmetic: Arithmetic = FP32, custom: Collection[str] = ()
) -> tuple[Residuals, ...]:
    """Residuals of each direction of a product, by custom kernels in the directions `custom`, else the vendor's."""
    shape, directions = product
    return check_layer(shape, str(device), seed, directions, arithmetic, custom)


def seen(part: nn.Conv2d | nn.Linear, x: Tensor) -> Product:
    """The product of a layer called with x in a training step."""
    unwanted = None if x.requires_grad else INPUT_GRADIENT
    directions = tuple(direction for direction in DIRECTIONS if direction != unwanted)
    if isinstance(part, nn.Linear):
        return ProductShape(prod(x.shape[:-1]), part.in_features, part.out_features), directions
    batch, channels, height, width = x.shape
    window: Any = (part.kernel_size, part.stride, part.padding, part.dilation, part.groups)
    return ConvolutionShape(batch, channels, height, width, part.out_channels, *window), directions
