"""Batch normalisation of images, optionally with an addition and a ReLU.

Ioffe and Szegedy, Batch Normalization, ICML 2015, algorithm 1: over all pixels of all images, for each channel y =
weight (x - mean) / sqrt(variance + eps) + bias, with the variance divided by the number of pixels. Then y + other, then
max(y, 0). Arrays are [pixels, channels].
"""

from dataclasses import dataclass
from typing import NamedTuple

from ..spec import Float64, Spec, fp32_tolerance


@dataclass(frozen=True)
class Shape:
    """`pixels` of all images together, channels, and whether there is an addition and a ReLU."""

    pixels: int
    channels: int
    added: bool = False
    relu: bool = True


class Gradients(NamedTuple):
    """Gradients of x, of the addend (None without one), of weight and of bias."""

    x: Float64
    other: Float64 | None
    weight: Float64
    bias: Float64


def operations(shape: Shape) -> int:
    """Upper bound of the operations of the forward pass."""
    # a pixel of a channel: mean (1), variance (3), centred (1), scaled and shifted (2); added (1), ReLU (1)
    return (7 + shape.added + shape.relu) * shape.pixels * shape.channels


def nbytes(shape: Shape, direction: str = "", dtype: str = "fp32") -> int:
    """Bytes of the forward pass; x is read twice, as its mean must be known first."""
    return {"fp32": 4, "fp64": 8}[dtype] * (3 + shape.added) * shape.pixels * shape.channels


SPEC = Spec[Shape](name="batch_norm", operations=operations, nbytes=nbytes, tolerance=fp32_tolerance)
