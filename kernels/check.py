"""Checks of a provider at a layer's shape: random data, the provider's three products, residuals of every element."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Generic

import numpy as np

from . import conv2d, gemm, operators
from .arrays import rounded
from .conv2d import reference as conv2d_reference
from .conv2d import vendor as conv2d_vendor
from .gemm import reference as gemm_reference
from .gemm import vendor as gemm_vendor
from .residual import ELEMENTWISE_LIMIT, Residuals, measure
from .spec import DIRECTIONS, FP32, FP64, Arithmetic, Block, Float32, S, Spec, Tensors

LARGEST_OPERATIONS = 2**30
LARGEST_MEMORY = 2**28
# Host memory over the fp32 tensors themselves: the provider's results, float64 copies and their squares.
COPIES = 6

TRIAL = conv2d.Shape(2, 8, 8, 8, 8, (3, 3), (1, 1), (1, 1))

Blocks = Callable[[str, Tensors, Float32, S], Iterator[Block]]


class Provider(Generic[S]):
    """Who computes a layer's products.

    `run` makes y, dx and dw, `slack` is by how much the provider's algorithms may exceed the error of direct sums; in
    the directions that are `ours` they do not.
    """

    def __init__(
        self,
        run: Callable[..., dict[str, Float32]],
        slack: Callable[[S, str], float] | None = None,
        ours: Collection[str] = (),
    ) -> None:
        self.run, self._slack, self._ours = run, slack, ours

    def slack(self, shape: S, device: str, direction: str) -> float:
        """Of a direction."""
        return 1.0 if self._slack is None or direction in self._ours else self._slack(shape, device)


def check_convolution(
    shape: conv2d.Shape,
    device: str,
    seed: int,
    directions: Collection[str] = DIRECTIONS,
    arithmetic: Arithmetic = FP32,
    ours: Collection[str] = (),
) -> tuple[Residuals, ...]:
    """Residuals of the convolution in channels_last that training runs, one entry a direction; see `check`.

    `ours` are the directions that our kernels compute; the others are torch's.
    """
    if ours:
        run = partial(conv2d_vendor.run, compute=partial(operators.convolution, ours=ours))
        provider = Provider(run, conv2d_vendor.slack, ours)
    else:
        compute = partial(conv2d_vendor.convolve, bias=None, converted=converts(device, arithmetic))
        run = partial(conv2d_vendor.run, compute=lambda x, w, shape: compute(x, w, shape=shape))
        provider = Provider(run, conv2d_vendor.slack)
    return check(conv2d.SPEC, shape, provider, conv2d_reference.blocks, device, seed, directions, arithmetic)


def check_gemm(
    shape: gemm.Shape,
    device: str,
    seed: int,
    directions: Collection[str] = DIRECTIONS,
    arithmetic: Arithmetic = FP32,
    ours: Collection[str] = (),
) -> tuple[Residuals, ...]:
    """Residuals of torch's matrix product, in the directions that are `ours` of that; see `check`."""
    run = partial(gemm_vendor.run, compute=partial(operators.dense, ours=ours)) if ours else gemm_vendor.run
    return check(gemm.SPEC, shape, Provider(run), gemm_reference.blocks, device, seed, directions, arithmetic)


def check(
    spec: Spec[S],
    shape: S,
    provider: Provider[S],
    blocks: Blocks[S],
    device: str,
    seed: int,
    directions: Collection[str],
    arithmetic: Arithmetic = FP32,
) -> tuple[Residuals, ...]:
    """One `Residuals` a direction, of every element that the provider computed from normal random data.

    The data are rounded to the type first, so that every product of two is exact in fp32 and only the sums are judged.
    The layer keeps its dimensions; only the batch is reduced where the float64 product would take too long
    (`Residuals.images` tells). The data are a function of (shape checked, seed, type). torch allocates its results
    itself, so they cannot be poisoned beforehand: an element it never wrote holds what that memory held, zeros if it
    is fresh.
    """
    checked = affordable(spec, shape)
    data = draw(checked, seed, arithmetic)
    results = provider.run(data, checked, device, directions, arithmetic.stored)
    slack = {direction: provider.slack(checked, device, direction) for direction in directions}
    return residuals(spec, (shape, checked), data, results, blocks, slack, seed, arithmetic)


def residuals(
    spec: Spec[S],
    shapes: tuple[S, S],
    data: Tensors,
    results: Mapping[str, Float32],
    blocks: Blocks[S],
    slack: Mapping[str, float],
    seed: int,
    arithmetic: Arithmetic = FP32,
) -> tuple[Residuals, ...]:
    """One a direction that `slack` has, of the results of these data; of a shape, and as it was checked."""
    shape, checked = shapes

    def one(direction: str) -> Residuals:
        assert results[direction].shape == checked.result(direction), direction
        inner = checked.inner(direction)
        parts = blocks(direction, data, results[direction], checked)
        tolerance = slack[direction] * spec.tolerance(inner) * arithmetic.unit / FP32.unit
        values = measure(parts, inner, tolerance, seed, arithmetic)
        return Residuals(spec.name, direction, shape, checked.batch, inner, *values)

    return tuple(one(direction) for direction in slack)


@cache
def converts(device: str, arithmetic: Arithmetic) -> bool:
    """Whether 16-bit convolutions have to be computed in fp32, because torch's own do not sum in fp32 on this device.

    Found by trying, on a CPU only: there torch has 16-bit convolutions that round partial sums to 16 bits where the
    processor has no instructions for the type.
    """
    if device != "cpu" or not arithmetic.roundoff:
        return False
    found = check(
        conv2d.SPEC, TRIAL, Provider(conv2d_vendor.run), conv2d_reference.blocks, device, 1, DIRECTIONS, arithmetic
    )
    return any(residuals.elementwise > ELEMENTWISE_LIMIT for residuals in found)


def affordable(spec: Spec[S], shape: S) -> S:
    """The shape, its batch halved until the float64 check stays small; at least one sample."""
    while shape.batch > 1 and (
        spec.operations(shape) > LARGEST_OPERATIONS or COPIES * spec.nbytes(shape) > LARGEST_MEMORY
    ):
        shape = replace(shape, batch=shape.batch // 2)
    return shape


def draw(shape: S, seed: int, arithmetic: Arithmetic = FP32) -> Tensors:
    """x, w and g, standard normal, rounded to the type and held in fp32, or in fp64 if it is that."""
    generator = np.random.Generator(np.random.Philox(seed))
    held: Any = np.float64 if arithmetic == FP64 else np.float32
    x, w, g = (generator.standard_normal(size, dtype=held) for size in (shape.x, shape.w, shape.y))
    return Tensors(*(rounded(tensor, arithmetic) for tensor in (x, w, g)))
