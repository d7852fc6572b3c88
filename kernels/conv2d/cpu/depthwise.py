"""Depth-wise convolution: one filter a channel, vectorised over channels.

Weights are transposed to [tap, channel]. Threads divide images and channels.
"""

import ctypes
from typing import Any

import numpy as np

from ...cpu.compiled import compiled
from ...cpu.function_pointer import call_pointer, function_pointer
from ...cpu.load_store import bytes_of, multiply_add_number, multiply_add_vector
from ...cpu.packing import LINE
from ...cpu.parallel import parallel_for
from ...cpu.workspace import workspace
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .. import Shape
from .geometry import Correlation, array_layout, forward_axis, images, weights
from .im2col import valid_outputs

TO_Y, TO_X, TO_W = 0, 1, 2  # which of the three is computed
TARGETS = {FORWARD: TO_Y, INPUT_GRADIENT: TO_X, WEIGHT_GRADIENT: TO_W}
BLOCK = 4  # vectors of channels of a unit of work


def applies(shape: Shape) -> bool:
    """Whether each channel has exactly one filter."""
    return shape.groups == shape.channels == shape.filters > 1


def compute(direction: str, x: Any, w: Any, y: Any, shape: Shape, threads: int) -> None:
    """Compute one of x, w and y from the other two; layouts as in conv2d/numba_cpu.py, y may stand for its gradient."""
    taps, target = _by_tap(w), {FORWARD: y, INPUT_GRADIENT: x}.get(direction)
    (taps if target is None else target)[:] = 0
    _accumulate(_work(x, w, y, shape), x.dtype.type(1), taps, TARGETS[direction], threads)
    if direction == WEIGHT_GRADIENT:
        w[:] = taps.transpose(2, 0, 1)[..., None]


def _work(x: Any, w: Any, y: Any, shape: Shape) -> Correlation:
    """The correlation of all groups at once."""
    vertical, horizontal = (forward_axis(shape, axis) for axis in (0, 1))
    source, own, target = images(array_layout(x), 0, 1), weights(array_layout(w), 0, 1), images(array_layout(y), 0, 1)
    return Correlation(shape.batch, vertical, horizontal, 1, source, own, target)


def _by_tap(w: Any) -> Any:
    """The weights as [Kh, Kw, C], in the workspace."""
    held = (ctypes.c_char * w.nbytes).from_address(workspace(w.nbytes))
    taps = np.frombuffer(held, w.dtype).reshape(w.shape[1], w.shape[2], w.shape[0])
    taps[:] = w[..., 0].transpose(1, 2, 0)
    return taps


def _accumulate(work: Correlation, one: Any, taps: Any, kind: int, threads: int) -> None:
    pointer = function_pointer(_accumulate_image, one, work, 0, 0, 0, 0, kind)
    _accumulate_on_threads(pointer, threads, one, work, taps.ctypes.data, kind, BLOCK * LINE // one.itemsize)


@compiled
def _accumulate_on_threads(pointer: Any, threads: Any, like: Any, work: Any, taps: Any, kind: Any, block: Any) -> None:
    """Divide the units of work among threads; the weight gradient sums over images, so only channels are divided."""
    parallel_for(_accumulate_units, threads, (pointer, threads, like, work, taps, kind, block))


@compiled
def _accumulate_units(
    thread: Any, pointer: Any, threads: Any, like: Any, work: Any, taps: Any, kind: Any, block: Any
) -> None:
    channels, batch = work.source.channels, work.images
    parts = (channels + block - 1) // block
    for unit in range(thread, parts if kind == TO_W else parts * batch, threads):
        channel, first_image = unit % parts * block, unit // parts
        for image in range(first_image, batch if kind == TO_W else first_image + 1):
            call_pointer(
                _accumulate_image, pointer, (like, work, image, channel, min(block, channels - channel), taps, kind)
            )


@compiled
def _accumulate_image(like: Any, work: Any, image: Any, channel: Any, channels: Any, taps: Any, kind: Any) -> None:
    """Accumulate the products of each output pixel of an image with the pixels that its taps see."""
    size = bytes_of(like)
    source, target = work.source, work.target
    for output in range(work.vertical.outputs):
        for down in range(work.vertical.taps):
            row = output * work.vertical.stride + work.vertical.start + down * work.vertical.dilation
            if row < 0 or row >= work.vertical.size:
                continue
            for right in range(work.horizontal.taps):
                w = taps + ((down * work.horizontal.taps + right) * source.channels + channel) * size
                begin, end = valid_outputs(work.horizontal, right, 0, work.horizontal.outputs)
                column = work.horizontal.start + right * work.horizontal.dilation
                x = source.address + image * source.image + row * source.row + column * source.pixel + channel * size
                y = target.address + image * target.image + output * target.row + channel * size
                for place in range(begin, end):
                    seen, made = x + place * work.horizontal.stride * source.pixel, y + place * target.pixel
                    _multiply_run(like, seen, made, w, channels, kind)


@compiled
def _multiply_run(like: Any, x: Any, y: Any, w: Any, count: Any, kind: Any) -> None:
    """Add the product of two of x, w and y to the third, channel by channel."""
    size = bytes_of(like)
    lanes = LINE // size
    target, a, b = (y, x, w) if kind == TO_Y else (x, y, w) if kind == TO_X else (w, x, y)
    whole = count // lanes * lanes
    for place in range(0, whole, lanes):
        multiply_add_vector(like, target + place * size, a + place * size, b + place * size)
    for place in range(whole, count):
        multiply_add_number(like, target + place * size, a + place * size, b + place * size)
