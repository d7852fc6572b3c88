"""Geometry of a convolution: which pixels each tap sees, as the structs of geometry.cuh hold it. No device needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any, NamedTuple

from ...cuda.launch import structure

DIVISOR = structure(*((name, "u4") for name in ("divisor", "factor", "shift")))
IMAGE = structure(
    *(("first", "u8"), ("image", "i8"), ("row", "i8"), ("pixel", "i8")),
    *(("height", "i4"), ("width", "i4")),
)
GEOMETRY = structure(
    *(("pixels", "i4"), ("steps", "i4"), ("of_image", DIVISOR), ("of_row", DIVISOR)),
    *((name, "i4") for name in ("step_down", "step_across", "from_down", "from_across", "tap_down", "tap_across")),
    *(("of_taps", DIVISOR), ("of_channels", DIVISOR)),
)
WEIGHTS = structure(
    *(("of_filters", DIVISOR), ("of_taps", DIVISOR)),
    *((name, "i4") for name in ("skipped", "row", "column", "steps", "channels")),
)
LARGEST = 2**13 - 1  # largest coordinate of images, windows and taps, two of which share a word in geometry.cuh
MOST_GROUPS = 2**16 - 1  # limit of the second grid dimension
MOST_NUMBERS = 2**31 - 2**10  # limit of pixels and steps, including the overhang of a tile


class Divisor(NamedTuple):
    """A divisor of numbers below 2^31, applied by multiplication: kernels/cuda/types.cuh.

    Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994, theorem 4.2.
    """

    divisor: int
    factor: int
    shift: int


def divisor(number: int) -> Divisor:
    """Divisor for `quotient`; exact for 0 to 2^31 - 1."""
    if number == 1:
        return Divisor(1, 0, 0)
    shift = (number - 1).bit_length() - 1
    return Divisor(number, -(-(2 ** (32 + shift)) // number), shift)


@dataclass(frozen=True)
class Axis:
    """One axis of a convolution."""

    size: int
    result: int
    kernel: int
    stride: int
    padding: int
    dilation: int


@dataclass(frozen=True)
class ConvolutionLayer:
    """A convolution: images, channels and filters of a group, groups, and both axes."""

    images: int
    channels: int
    filters: int
    groups: int
    down: Axis
    across: Axis

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return self.down.kernel * self.across.kernel

    @property
    def pixels(self) -> int:
        """Output pixels of all images."""
        return self.images * self.down.result * self.across.result


class Reach(NamedTuple):
    """One axis: output pixels first, first + stride, ..., `pixels` of them, and the taps that reach them.

    Pixel number i sees through tap t the source pixel i * step + start + t * tap; in the weights, that is tap first_tap
    + t * tap_step.
    """

    first: int
    stride: int
    pixels: int
    taps: int
    start: int
    step: int
    tap: int
    first_tap: int
    tap_step: int


def forward_reach(axis: Axis) -> Reach:
    """All output pixels and all taps."""
    return Reach(0, 1, axis.result, axis.kernel, -axis.padding, axis.stride, axis.dilation, 0, 1)


def gradient_reaches(axis: Axis) -> Iterator[Reach]:
    """Phases of the input gradient along an axis: pixels of a phase see the same taps of the output gradient.

    Input pixel h receives the gradient at (h + padding - tap * dilation) / stride, where that is an integer.
    """
    period = axis.stride // gcd(axis.stride, axis.dilation)
    for phase in range(min(axis.stride, axis.size)):
        count = -(-(axis.size - phase) // axis.stride)
        apart = [phase + axis.padding - tap * axis.dilation for tap in range(min(period, axis.kernel))]
        reaching = [tap for tap, pixels in enumerate(apart) if pixels % axis.stride == 0]
        first = reaching[0] if reaching else 0
        taps = -(-(axis.kernel - first) // period) if reaching else 0
        start = (phase + axis.padding - first * axis.dilation) // axis.stride
        yield Reach(phase, axis.stride, count, taps, start, 1, -axis.dilation * period // axis.stride, first, period)


def check(layer: ConvolutionLayer) -> None:
    """Raise ValueError if a layer exceeds the limits of the kernels."""
    down, across = layer.down, layer.across
    for axis in (down, across):
        reaches = [(axis.size, forward_reach(axis)), *((axis.result, reach) for reach in gradient_reaches(axis))]
        if (most := max(_most(size, reach) for size, reach in reaches)) > LARGEST:
            raise ValueError(f"{axis}: coordinates reach {most}; up to {LARGEST} are allowed")
    pixels = max(layer.images * down.size * across.size, layer.pixels)
    if (most := max(pixels, layer.taps * layer.channels, layer.taps * layer.filters)) > MOST_NUMBERS:
        raise ValueError(f"{layer}: {most} pixels or steps; up to {MOST_NUMBERS} are allowed")
    if layer.groups > MOST_GROUPS:
        raise ValueError(f"{layer}: up to {MOST_GROUPS} groups are allowed")


def _most(size: int, reach: Reach) -> int:
    """Largest coordinate of images of that size, of windows and of taps in them."""
    windows = (reach.start, reach.start + (reach.pixels - 1) * reach.step)
    return max(size, *(abs(each) for each in (*windows, reach.taps * reach.tap)))


def geometry(layer: ConvolutionLayer, down: Reach, across: Reach, channels: int) -> tuple[Any, ...]:
    """Fields of GEOMETRY for the output pixels of a correlation; `channels` are those of a group of the source."""
    pixels = down.pixels * across.pixels
    of_pixels = (divisor(max(1, pixels)), divisor(max(1, across.pixels)))
    steps = (down.step, across.step, down.start, across.start, down.tap, across.tap)
    taps = (divisor(max(1, across.taps)), divisor(channels))
    return (layer.images * pixels, down.taps * across.taps * channels, *of_pixels, *steps, *taps)


def weights(layer: ConvolutionLayer, down: Reach, across: Reach) -> tuple[Any, ...]:
    """Fields of WEIGHTS for the taps of a phase of an input gradient."""
    column = layer.channels
    row = layer.across.kernel * column
    skipped = down.first_tap * row + across.first_tap * column
    apart = (skipped, down.tap_step * row, across.tap_step * column)
    return divisor(layer.filters), divisor(max(1, across.taps)), *apart, _taps((down, across)) * layer.filters, column


def phase_reaches(layer: ConvolutionLayer) -> list[tuple[Reach, Reach]]:
    """Both axes of each phase of an input gradient, phases with most taps first."""
    pairs = product(gradient_reaches(layer.down), gradient_reaches(layer.across))
    return sorted(pairs, key=_taps, reverse=True)


def _taps(reaches: tuple[Reach, Reach]) -> int:
    return reaches[0].taps * reaches[1].taps
