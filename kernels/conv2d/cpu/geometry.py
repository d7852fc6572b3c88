"""How a convolution meets its input: which source pixel each tap of an output sees, and what lies where in memory."""

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any, NamedTuple

from .. import Shape

FEW_CHANNELS = 64  # taps of no more are joined where they lie side by side


class Lying(NamedTuple):
    """Where an array lies in memory, and how; an address of 0 stands for any."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    itemsize: int


def lying(array: Any) -> Lying:
    """Of an array, which must stay there."""
    return Lying(array.ctypes.data, array.shape, array.strides, array.itemsize)


class Axis(NamedTuple):
    """One direction: tap t of output o sees source o * step + start + t * apart, where 0 <= that < size."""

    outputs: int
    taps: int
    step: int
    start: int
    apart: int
    size: int


class Images(NamedTuple):
    """Pictures with their channels side by side: the first number's address, and bytes to the next of each kind."""

    address: int
    image: int
    row: int
    pixel: int
    channels: int


class Weights(NamedTuple):
    """The first number's address, and bytes to the next tap downwards and to the right, channel and filter."""

    address: int
    down: int
    right: int
    channel: int
    filter: int


class Correlation(NamedTuple):
    """Every output pixel is a product of the source pixels that its taps see, in all channels, with the weights.

    `joined` taps of a row lie side by side in the source and in the weights, and are treated as one.
    """

    images: int
    vertical: Axis
    horizontal: Axis
    joined: int
    source: Images
    weights: Weights
    target: Images


# Fills the target of a correlation, or its weights with their gradient: called with how many bytes further on than it
# says source, weights and target lie, and perhaps with an epilogue.
Computation = Callable[..., None]


class Chunk(NamedTuple):
    """Taps and channels that are multiplied at a time."""

    tap: int
    taps: int
    channel: int
    channels: int


def moved(work: Correlation, source: int, weights_: int, target: int) -> Correlation:
    """The same, of arrays that lie so many bytes further on."""
    of_source, of_weights, of_target = work.source, work.weights, work.target
    return Correlation(
        *work[:4],
        Images(of_source.address + source, *of_source[1:]),
        Weights(of_weights.address + weights_, *of_weights[1:]),
        Images(of_target.address + target, *of_target[1:]),
    )


def forward_works(x: Lying, w: Lying, y: Lying, shape: Shape) -> Iterator[Correlation]:
    """The forward pass, a correlation for each group."""
    vertical, horizontal = (forward_axis(shape, axis) for axis in (0, 1))
    for group in range(shape.groups):
        source, target = images(x, group, shape.groups), images(y, group, shape.groups)
        own = weights(w, group, shape.groups)
        yield joined(Correlation(shape.batch, vertical, horizontal, 1, source, own, target), x.itemsize)


def gradient_works(g: Lying, w: Lying, dx: Lying, shape: Shape) -> Iterator[Correlation]:
    """The input's gradient: for each group and each phase of the pixels, what its taps see of the output's."""
    phases = [(down, right) for down in gradient_phases(shape, 0) for right in gradient_phases(shape, 1)]
    for group in range(shape.groups):
        for down, right in phases:
            source, into = (images(array, group, shape.groups) for array in (g, dx))
            whole = weights(w, group, shape.groups)
            reached = Weights(
                whole.address + down.first * whole.down + right.first * whole.right,
                down.every * whole.down, right.every * whole.right, whole.filter, whole.channel,
            )
            target = Images(
                into.address + down.phase * into.row + right.phase * into.pixel,
                into.image, shape.stride[0] * into.row, shape.stride[1] * into.pixel, into.channels,
            )
            yield Correlation(shape.batch, down.axis, right.axis, 1, source, reached, target)


def joined(work: Correlation, size: int) -> Correlation:
    """The same, with the taps of a row as one where they have few channels and lie side by side."""
    every = work._replace(joined=work.horizontal.taps)
    return every if work.horizontal.apart == 1 and side_by_side(every, size) else work


def side_by_side(work: Correlation, size: int) -> bool:
    """Whether the few channels of all taps of a row lie in one piece, of numbers of `size` bytes."""
    channels, taps = work.source.channels, work.horizontal.taps
    in_one_piece = work.source.pixel == channels * size and work.weights.right == channels * work.weights.channel
    return channels <= FEW_CHANNELS and work.joined == taps and in_one_piece


def images(array: Lying, group: int, groups: int) -> Images:
    """A group's channels of pictures [N, H, W, C]."""
    channels = array.shape[3] // groups
    image, row, pixel, _ = _strides(array)
    return Images(array.address + group * channels * array.itemsize, image, row, pixel, channels)


def _strides(array: Lying) -> list[int]:
    """Bytes from one to the next of each kind; where there is only one NumPy says anything, so what follows counts."""
    strides = [array.itemsize]
    for size, inner, stride in zip(array.shape[-2::-1], array.shape[:0:-1], array.strides[-2::-1], strict=True):
        strides.insert(0, stride if size > 1 else inner * strides[0])
    return strides


def weights(array: Lying, group: int, groups: int) -> Weights:
    """A group's filters of [F, Kh, Kw, C / groups]."""
    each, down, right, _ = _strides(array)
    return Weights(array.address + group * (array.shape[0] // groups) * each, down, right, array.itemsize, each)


def forward_axis(shape: Shape, axis: int) -> Axis:
    """The forward pass: outputs are those of the layer."""
    size = (shape.height, shape.width)[axis]
    return Axis(
        shape.y[2 + axis], shape.kernel[axis], shape.stride[axis], -shape.padding[axis], shape.dilation[axis], size
    )


class Phase(NamedTuple):
    """Input pixels phase, phase + stride, ... of one direction; taps first, first + every, ... reach them."""

    phase: int
    first: int
    every: int
    axis: Axis


def gradient_phases(shape: Shape, axis: int) -> Iterator[Phase]:
    """The input's gradient: input pixels whose places are alike modulo the stride are reached by the same taps.

    Input h = stride * o + phase gets from tap k the gradient at (h + padding - k * dilation) / stride, if it is whole.
    Taps are taken in the order in which the gradients lie.
    """
    stride, dilation, padding = shape.stride[axis], shape.dilation[axis], shape.padding[axis]
    size, every = (shape.height, shape.width)[axis], stride // gcd(stride, dilation)
    for phase in range(min(stride, size)):
        taps = [tap for tap in range(shape.kernel[axis]) if (phase + padding - tap * dilation) % stride == 0]
        last = taps[-1] if taps else 0
        start = (phase + padding - last * dilation) // stride
        outputs = -(-(size - phase) // stride)
        apart = every * dilation // stride
        yield Phase(phase, last, -every, Axis(outputs, len(taps), 1, start, apart, shape.y[2 + axis]))
