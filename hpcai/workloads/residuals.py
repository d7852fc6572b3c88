"""Checks the provider that trains: its products at the layer shapes of the network, against float64."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from mpi4py import MPI

from hpcai.kernels.check import check_convolution, check_gemm
from hpcai.kernels.conv2d import Shape as ConvolutionShape
from hpcai.kernels.gemm import Shape as ProductShape
from hpcai.kernels.residual import Residuals
from hpcai.kernels.spec import DIRECTIONS, FP32, INPUT_GRADIENT, Arithmetic
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv, Dense

LARGEST = 9999999.0  # printed for a residual that is infinite or does not fit the column
LayerShape: TypeAlias = "ConvolutionShape | ProductShape"
Product = tuple[LayerShape, tuple[str, ...]]  # a layer's shape, and the directions that training runs


def products(graph: Graph, batch: int) -> list[Product]:
    """The distinct convolution and dense products of a training step, in the order of the layers."""
    return list(dict.fromkeys(_products(graph, batch)))


def _products(graph: Graph, batch: int) -> Iterator[Product]:
    for layer in graph.layers:
        op = layer.op
        if isinstance(op, Conv | Dense):
            unwanted = INPUT_GRADIENT if graph.trained.isdisjoint(layer.inputs) else None
            directions = tuple(direction for direction in DIRECTIONS if direction != unwanted)
            yield _shape(op, graph.shapes[layer.inputs[0]], batch), directions


def _shape(op: Conv | Dense, source: tuple[int, ...], batch: int) -> LayerShape:
    if isinstance(op, Dense):
        return ProductShape(batch, source[0], op.features)
    return ConvolutionShape(batch, *source, op.channels, op.kernel, op.stride, op.padding, op.dilation, op.groups)


def worst_residuals(
    graph: Graph, batch: int, comm: MPI.Comm, device: torch.device, seed: int, arithmetic: Arithmetic = FP32
) -> dict[str, dict[str, Any]]:
    """The worst of each residual over all shapes and directions, with where it was found; the same on every rank.

    Products are computed in `arithmetic`; for tf32 the caller has switched it on (hpcai.train.precision). The shapes
    are dealt out to the ranks of `comm` in turn, so that each shape and each rank has at least one.
    """
    shapes = products(graph, batch)
    mine = shapes[comm.rank :: comm.size] or [shapes[comm.rank % len(shapes)]]
    found = [residuals for product in mine for residuals in _check(product, device, seed, arithmetic)]
    return {measure: _worst(measure, found, comm) for measure in ("scaled", "elementwise")}


def _check(product: Product, device: torch.device, seed: int, arithmetic: Arithmetic) -> tuple[Residuals, ...]:
    shape, directions = product
    check = check_convolution if isinstance(shape, ConvolutionShape) else check_gemm
    return tuple(check(shape, str(device), seed, directions, arithmetic))


def _worst(measure: str, found: list[Residuals], comm: MPI.Comm) -> dict[str, Any]:
    value, where = max((min(getattr(item, measure), LARGEST), _where(item)) for item in found)
    value, where = comm.allreduce((value, where), MPI.MAX)
    return {"value": value, "where": where}


def _where(item: Residuals) -> str:
    x, w = ("x".join(map(str, size)) for size in (item.shape.x, item.shape.w))
    return f"{item.kernel} {item.direction} {x} by {w}, {item.images} images checked"
