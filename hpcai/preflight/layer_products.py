"""The products that training a network runs, by the shapes of its layers; without MPI."""

from collections.abc import Collection, Iterator
from dataclasses import fields
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.check import affordable, check_convolution, check_gemm
from hpcai.kernels.check_int8 import check_convolution_of_bytes, check_gemm_of_bytes
from hpcai.kernels.conv2d import Shape as ConvolutionShape
from hpcai.kernels.gemm import Shape as ProductShape
from hpcai.kernels.residual import Residuals
from hpcai.kernels.spec import DIRECTIONS, FP32, INPUT_GRADIENT, INT8, Arithmetic
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv, Dense
from hpcai.opcount import products as opcount

LayerShape: TypeAlias = "ConvolutionShape | ProductShape"
Product = tuple[LayerShape, tuple[str, ...]]  # a layer's shape, and the directions that training runs


def products(graph: Graph, batch: int) -> list[Product]:
    """The distinct convolution and dense products of a training step, in the order of the layers."""
    return list(dict.fromkeys(every_product(graph, batch)))


def every_product(graph: Graph, batch: int) -> Iterator[Product]:
    """The products of a training step, as often as layers have them, in their order."""
    for layer in graph.layers:
        op = layer.op
        if isinstance(op, Conv | Dense):
            unwanted = INPUT_GRADIENT if graph.trained.isdisjoint(layer.inputs) else None
            directions = tuple(direction for direction in DIRECTIONS if direction != unwanted)
            yield _shape(op, graph.shapes[layer.inputs[0]], batch), directions


def _shape(op: Conv | Dense, source: tuple[int, ...], batch: int) -> LayerShape:
    if isinstance(op, Dense):
        return ProductShape(batch * prod(source[:-1]), source[-1], op.features)
    channels, height, width = source
    window = (op.kernel, op.stride, op.padding, op.dilation, op.groups)
    return ConvolutionShape(batch, channels, height, width, op.channels, *window)


def checked_operations(product: Product) -> int:
    """FLOP of the directions of a product, at the batch that its check is reduced to."""
    shape, directions = product
    if isinstance(shape, ConvolutionShape):
        return len(directions) * conv2d.operations(affordable(conv2d.SPEC, shape))
    return len(directions) * gemm.operations(affordable(gemm.SPEC, shape))


def check(
    product: Product, device: torch.device, seed: int, arithmetic: Arithmetic = FP32, ours: Collection[str] = ()
) -> tuple[Residuals, ...]:
    """Residuals of each direction that training runs, by our kernels in those that are `ours`, else the vendor's."""
    shape, directions = product
    if isinstance(shape, ConvolutionShape):
        if arithmetic is INT8:
            return tuple(check_convolution_of_bytes(shape, str(device), seed, directions, ours))
        return tuple(check_convolution(shape, str(device), seed, directions, arithmetic, ours))
    if arithmetic is INT8:
        return tuple(check_gemm_of_bytes(shape, str(device), seed, directions, ours))
    return tuple(check_gemm(shape, str(device), seed, directions, arithmetic, ours))


def seen(part: nn.Conv2d | nn.Linear, x: Tensor) -> Product:
    """The product of a layer that is called with x in a training step."""
    unwanted = None if x.requires_grad else INPUT_GRADIENT
    directions = tuple(direction for direction in DIRECTIONS if direction != unwanted)
    if isinstance(part, nn.Linear):
        return ProductShape(prod(x.shape[:-1]), part.in_features, part.out_features), directions
    batch, channels, height, width = x.shape
    window: Any = (part.kernel_size, part.stride, part.padding, part.dilation, part.groups)
    return ConvolutionShape(batch, channels, height, width, part.out_channels, *window), directions


def in_words(shape: LayerShape) -> tuple[str, str]:
    """The kernel, and the shape as the table of kernels has it."""
    kernel = "conv2d" if isinstance(shape, ConvolutionShape) else "gemm"
    sizes = tuple(getattr(shape, each.name) for each in fields(shape))
    return kernel, opcount.Product(kernel, DIRECTIONS[0], sizes, "", 1, "fp32").shape
