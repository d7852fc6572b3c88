"""Checks of a provider at a layer's shape: random data, the provider's three products, residuals of every element."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import numpy as np

from . import conv2d, gemm
from .conv2d import reference as conv2d_reference
from .conv2d import vendor as conv2d_vendor
from .gemm import reference as gemm_reference
from .gemm import vendor as gemm_vendor
from .residual import Residuals, measure
from .spec import DIRECTIONS, Block, Float32, S, Spec, Tensors

LARGEST_OPERATIONS = 2**30
LARGEST_MEMORY = 2**28
# Host memory over the fp32 tensors themselves: the provider's results, float64 copies and their squares.
COPIES = 6

Run = Callable[[Tensors, S, str, Collection[str]], dict[str, Float32]]
Blocks = Callable[[str, Tensors, Float32, S], Iterator[Block]]


def check_convolution(
    shape: conv2d.Shape, device: str, seed: int, directions: Collection[str] = DIRECTIONS
) -> tuple[Residuals, ...]:
    """Residuals of torch's convolution in channels_last, one entry a direction; see `check`."""
    return check(conv2d.SPEC, shape, conv2d_vendor.run, conv2d_reference.blocks, device, seed, directions)


def check_gemm(
    shape: gemm.Shape, device: str, seed: int, directions: Collection[str] = DIRECTIONS
) -> tuple[Residuals, ...]:
    """Residuals of torch's matrix product, one entry a direction; see `check`."""
    return check(gemm.SPEC, shape, gemm_vendor.run, gemm_reference.blocks, device, seed, directions)


def check(
    spec: Spec[S], shape: S, run: Run[S], blocks: Blocks[S], device: str, seed: int, directions: Collection[str]
) -> tuple[Residuals, ...]:
    """One `Residuals` a direction, of every element that the provider computed from normal random fp32 data.

    The layer keeps its dimensions; only the batch is reduced where the float64 product would take too long
    (`Residuals.images` tells). The data are a function of (shape checked, seed). torch allocates its results itself,
    so they cannot be poisoned beforehand: an element it never wrote holds what that memory held, zeros if it is fresh.
    """
    checked = affordable(spec, shape)
    data = draw(checked, seed)
    results = run(data, checked, device, directions)

    def one(direction: str) -> Residuals:
        assert results[direction].shape == checked.result(direction), direction
        inner = checked.inner(direction)
        parts = blocks(direction, data, results[direction], checked)
        values = measure(parts, inner, spec.tolerance(inner), seed)
        return Residuals(spec.name, direction, shape, checked.batch, inner, *values)

    return tuple(one(direction) for direction in directions)


def affordable(spec: Spec[S], shape: S) -> S:
    """The shape, its batch halved until the float64 check stays small; at least one sample."""
    while shape.batch > 1 and (
        spec.operations(shape) > LARGEST_OPERATIONS or COPIES * spec.nbytes(shape) > LARGEST_MEMORY
    ):
        shape = replace(shape, batch=shape.batch // 2)
    return shape


def draw(shape: S, seed: int) -> Tensors:
    """x, w and g, standard normal, fp32."""
    generator = np.random.Generator(np.random.Philox(seed))
    x, w, g = (generator.standard_normal(size, dtype=np.float32) for size in (shape.x, shape.w, shape.y))
    return Tensors(x, w, g)
