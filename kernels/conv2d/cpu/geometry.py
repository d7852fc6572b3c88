"""Geometry of a convolution on CPUs: which source pixel each tap of an output sees, and the strides of the arrays."""

from collections.abc import Iterator
from math import gcd
from typing import Any, NamedTuple

from .. import Shape

FEW_CHANNELS = 64  # largest number of channels of merged taps


class ArrayLayout(NamedTuple):
    """Address, shape and strides of an array; address 0 stands for any."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    itemsize: int


def array_layout(array: Any) -> ArrayLayout:
    """Layout of an array, which must not move."""
    return ArrayLayout(array.ctypes.data, array.shape, array.strides, array.itemsize)


class Axis(NamedTuple):
    """One axis: tap t of output o sees source o * stride + start + t * dilation, where that lies in [0, size)."""

    outputs: int
    taps: int
    stride: int
    start: int
    dilation: int
    size: int


class ImageLayout(NamedTuple):
    """Images with contiguous channels: address, and bytes from image to image, row to row and pixel to pixel."""

    address: int
    image: int
    row: int
    pixel: int
    channels: int


class WeightLayout(NamedTuple):
    """Weights: address, and bytes to the next tap downwards, to the right, to the next channel and filter."""

    address: int
    down: int
    right: int
    channel: int
    filter: int


class Correlation(NamedTuple):
    """A cross-correlation: every output pixel is the product of the source pixels that its taps see with the weights.

    `merged` taps of a row are contiguous in source and weights and are treated as one.
    """

    images: int
    vertical: Axis
    horizontal: Axis
    merged: int
    source: ImageLayout
    weights: WeightLayout
    target: ImageLayout


class KBlock(NamedTuple):
    """Taps and channels that are multiplied at a time."""

    tap: int
    taps: int
    channel: int
    channels: int


def shifted(work: Correlation, source: int, weights_: int, target: int) -> Correlation:
    """The same correlation, of arrays that many bytes further on."""
    of_source, of_weights, of_target = work.source, work.weights, work.target
    return Correlation(
        work.images, work.vertical, work.horizontal, work.merged,
        ImageLayout(
            of_source.address + source, of_source.image, of_source.row, of_source.pixel, of_source.channels
        ),
        WeightLayout(
            of_weights.address + weights_, of_weights.down, of_weights.right, of_weights.channel, of_weights.filter
        ),
        ImageLayout(
            of_target.address + target, of_target.image, of_target.row, of_target.pixel, of_target.channels
        ),
    )


def forward_correlations(x: ArrayLayout, w: ArrayLayout, y: ArrayLayout, shape: Shape) -> Iterator[Correlation]:
    """The forward pass, one correlation a group."""
    vertical, horizontal = (forward_axis(shape, axis) for axis in (0, 1))
    for group in range(shape.groups):
        source, target = images(x, group, shape.groups), images(y, group, shape.groups)
        own = weights(w, group, shape.groups)
        yield merge_taps(Correlation(shape.batch, vertical, horizontal, 1, source, own, target), x.itemsize)


def input_gradient_correlations(g: ArrayLayout, w: ArrayLayout, dx: ArrayLayout, shape: Shape) -> Iterator[Correlation]:
    """The input gradient, one correlation for each group and each phase of the stride."""
    phases = [(down, right) for down in gradient_phases(shape, 0) for right in gradient_phases(shape, 1)]
    for group in range(shape.groups):
        for down, right in phases:
            source, into = (images(array, group, shape.groups) for array in (g, dx))
            whole = weights(w, group, shape.groups)
            reached = WeightLayout(
                whole.address + down.first * whole.down + right.first * whole.right,
                down.every * whole.down, right.every * whole.right, whole.filter, whole.channel,
            )
            target = ImageLayout(
                into.address + down.phase * into.row + right.phase * into.pixel,
                into.image, shape.stride[0] * into.row, shape.stride[1] * into.pixel, into.channels,
            )
            yield Correlation(shape.batch, down.axis, right.axis, 1, source, reached, target)


def merge_taps(work: Correlation, size: int) -> Correlation:
    """The same correlation, with the taps of a row merged if they have few channels and are contiguous."""
    every = work._replace(merged=work.horizontal.taps)
    return every if work.horizontal.dilation == 1 and has_merged_taps(every, size) else work


def has_merged_taps(work: Correlation, size: int) -> bool:
    """Whether the taps of a row are contiguous and have few channels, for numbers of `size` bytes."""
    channels, taps = work.source.channels, work.horizontal.taps
    in_one_piece = work.source.pixel == channels * size and work.weights.right == channels * work.weights.channel
    return channels <= FEW_CHANNELS and work.merged == taps and in_one_piece


def images(array: ArrayLayout, group: int, groups: int) -> ImageLayout:
    """Layout of the channels of a group, of images [N, H, W, C]."""
    channels = array.shape[3] // groups
    image, row, pixel, _ = _strides(array)
    return ImageLayout(array.address + group * channels * array.itemsize, image, row, pixel, channels)


def _strides(array: ArrayLayout) -> list[int]:
    """Strides in bytes; of axes of size 1, where NumPy's strides are arbitrary, those of a contiguous array."""
    strides = [array.itemsize]
    for size, inner, stride in zip(array.shape[-2::-1], array.shape[:0:-1], array.strides[-2::-1], strict=True):
        strides.insert(0, stride if size > 1 else inner * strides[0])
    return strides


def weights(array: ArrayLayout, group: int, groups: int) -> WeightLayout:
    """Layout of the filters of a group, of weights [F, Kh, Kw, C / groups]."""
    each, down, right, _ = _strides(array)
    return WeightLayout(array.address + group * (array.shape[0] // groups) * each, down, right, array.itemsize, each)


def forward_axis(shape: Shape, axis: int) -> Axis:
    """An axis of the forward pass."""
    size = (shape.height, shape.width)[axis]
    return Axis(
        shape.y[2 + axis], shape.kernel[axis], shape.stride[axis], -shape.padding[axis], shape.dilation[axis], size
    )


class Phase(NamedTuple):
    """Input pixels phase, phase + stride, ... of one axis; taps first, first + every, ... reach them."""

    phase: int
    first: int
    every: int
    axis: Axis


def gradient_phases(shape: Shape, axis: int) -> Iterator[Phase]:
    """Phases of the input gradient: input pixels that are equal modulo the stride are reached by the same taps.

    Input h = stride * o + phase receives through tap k the gradient at (h + padding - k * dilation) / stride, where
    that is an integer. Taps are in the order of the gradients in memory.
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
