"""The kernels of layers, matrix product and convolution, by name and by shape."""

from typing import Any, TypeAlias

from . import conv2d, gemm
from .spec import Spec

LayerShape: TypeAlias = conv2d.Shape | gemm.Shape

SPECS: dict[str, Spec[Any]] = {spec.name: spec for spec in (conv2d.SPEC, gemm.SPEC)}


def spec_of(shape: LayerShape) -> Spec[Any]:
    """The specification of the kernel that computes a layer of that shape."""
    return conv2d.SPEC if isinstance(shape, conv2d.Shape) else gemm.SPEC
