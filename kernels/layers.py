"""Kernels of layers, matrix product, convolution and attention: specification by shape, products in float64."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from . import attention, conv2d, gemm
from .conv2d import reference as conv2d_reference
from .gemm import reference as gemm_reference
from .spec import Block, Spec, Tensors

LayerShape: TypeAlias = conv2d.Shape | gemm.Shape
L = TypeVar("L", bound=LayerShape)

MeasuredShape: TypeAlias = LayerShape | attention.Shape

SPECS: dict[str, Spec[Any]] = {spec.name: spec for spec in (conv2d.SPEC, gemm.SPEC, attention.SPEC)}

LARGEST_OPERATIONS = 2**30  # operations of a layer's check in float64, at most
LARGEST_MEMORY = 2**28
# Host memory of a check / that of the fp32 tensors: the provider's results, float64 copies and their squares.
COPIES = 6


def spec_of(shape: MeasuredShape) -> Spec[Any]:
    """The specification of the kernel that computes a layer of that shape."""
    if isinstance(shape, attention.Shape):
        return attention.SPEC
    return conv2d.SPEC if isinstance(shape, conv2d.Shape) else gemm.SPEC


def blocks_of(direction: str, data: Tensors, result: Any, shape: LayerShape) -> Iterator[Block]:
    """Blocks of a provider's y, dx or dw with the factors of their exact values, by the reference.

    Every element once.
    """
    if isinstance(shape, conv2d.Shape):
        return conv2d_reference.blocks(direction, data, result, shape)
    return gemm_reference.blocks(direction, data, result, shape)


def affordable(shape: L) -> L:
    """The shape with its batch halved until a check in float64 is small; at least one sample."""
    spec = spec_of(shape)
    while shape.batch > 1 and (
        spec.operations(shape) > LARGEST_OPERATIONS or COPIES * spec.nbytes(shape) > LARGEST_MEMORY
    ):
        shape = replace(shape, batch=shape.batch // 2)
    return shape
