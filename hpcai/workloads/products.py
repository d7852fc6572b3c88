"""The products that training a network runs, by the shapes of its layers; without MPI."""

from collections.abc import Iterator
from math import prod
from typing import TypeAlias

import torch

from hpcai.kernels import conv2d, gemm
from hpcai.kernels.check import affordable, check_convolution, check_gemm
from hpcai.kernels.conv2d import Shape as ConvolutionShape
from hpcai.kernels.gemm import Shape as ProductShape
from hpcai.kernels.residual import Residuals
from hpcai.kernels.spec import DIRECTIONS, FP32, INPUT_GRADIENT, Arithmetic
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv, Dense

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
    return ConvolutionShape(batch, *source, op.channels, op.kernel, op.stride, op.padding, op.dilation, op.groups)


def checked_operations(product: Product) -> int:
    """FLOP of the directions of a product, at the batch that its check is reduced to."""
    shape, directions = product
    if isinstance(shape, ConvolutionShape):
        return len(directions) * conv2d.operations(affordable(conv2d.SPEC, shape))
    return len(directions) * gemm.operations(affordable(gemm.SPEC, shape))


def check(
    product: Product, device: torch.device, seed: int, arithmetic: Arithmetic = FP32, custom: bool = False
) -> tuple[Residuals, ...]:
    """Residuals of each direction that training runs, by the vendor's kernels or by ours."""
    shape, directions = product
    run = check_convolution if isinstance(shape, ConvolutionShape) else check_gemm
    return tuple(run(shape, str(device), seed, directions, arithmetic, custom))
