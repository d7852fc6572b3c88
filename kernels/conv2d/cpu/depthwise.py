"""Depth-wise convolution: each channel has a filter of its own, so vectors go along the channels.

Weights lie tap by tap for that, with all channels of a tap side by side. Threads share pictures and channels out.
"""

import ctypes
from typing import Any

import numpy as np

from ...cpu.compiled import compiled
from ...cpu.function_pointer import address_of, call_at
from ...cpu.load_store import bytes_of, multiply_number, multiply_vector
from ...cpu.packing import LINE
from ...cpu.parallel import in_team
from ...cpu.workspace import workspace
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .. import Shape
from .geometry import Correlation, forward_axis, images, lying, weights
from .im2col import inside

TO_Y, TO_X, TO_W = 0, 1, 2  # which of the three is added to, for loops in Numba
KINDS = {FORWARD: TO_Y, INPUT_GRADIENT: TO_X, WEIGHT_GRADIENT: TO_W}
BLOCK = 4  # vectors of channels that a thread takes at a time


def applies(shape: Shape) -> bool:
    """Whether each channel has one filter of its own."""
    return shape.groups == shape.channels == shape.filters > 1


def compute(direction: str, x: Any, w: Any, y: Any, shape: Shape, threads: int) -> None:
    """One of the three from the other two; layouts as in conv2d/numba_cpu.py, y stands for its gradient as well."""
    taps, target = _by_tap(w), {FORWARD: y, INPUT_GRADIENT: x}.get(direction)
    (taps if target is None else target)[:] = 0
    _meet(_work(x, w, y, shape), x.dtype.type(1), taps, KINDS[direction], threads)
    if direction == WEIGHT_GRADIENT:
        w[:] = taps.transpose(2, 0, 1)[..., None]


def _work(x: Any, w: Any, y: Any, shape: Shape) -> Correlation:
    """All groups at once."""
    vertical, horizontal = (forward_axis(shape, axis) for axis in (0, 1))
    source, own, target = images(lying(x), 0, 1), weights(lying(w), 0, 1), images(lying(y), 0, 1)
    return Correlation(shape.batch, vertical, horizontal, 1, source, own, target)


def _by_tap(w: Any) -> Any:
    """[Kh, Kw, C] in the workspace."""
    held = (ctypes.c_char * w.nbytes).from_address(workspace(w.nbytes))
    taps = np.frombuffer(held, w.dtype).reshape(w.shape[1], w.shape[2], w.shape[0])
    taps[:] = w[..., 0].transpose(1, 2, 0)
    return taps


def _meet(work: Correlation, one: Any, taps: Any, kind: int, threads: int) -> None:
    each = address_of(_meet_image, one, work, 0, 0, 0, 0, kind)
    _meet_on_threads(each, threads, one, work, taps.ctypes.data, kind, BLOCK * LINE // one.itemsize)


@compiled
def _meet_on_threads(each: Any, threads: Any, like: Any, work: Any, taps: Any, kind: Any, block: Any) -> None:
    """The weights' gradient is summed over all pictures: there only the channels are shared out."""
    in_team(_meet_units, threads, (each, threads, like, work, taps, kind, block))


@compiled
def _meet_units(thread: Any, each: Any, threads: Any, like: Any, work: Any, taps: Any, kind: Any, block: Any) -> None:
    channels, pictures = work.source.channels, work.images
    parts = (channels + block - 1) // block
    for unit in range(thread, parts if kind == TO_W else parts * pictures, threads):
        channel, picture = unit % parts * block, unit // parts
        for image in range(picture, pictures if kind == TO_W else picture + 1):
            call_at(_meet_image, each, (like, work, image, channel, min(block, channels - channel), taps, kind))


@compiled
def _meet_image(like: Any, work: Any, image: Any, channel: Any, channels: Any, taps: Any, kind: Any) -> None:
    """Each output pixel of a picture with each pixel that its taps see."""
    size = bytes_of(like)
    source, target = work.source, work.target
    for output in range(work.vertical.outputs):
        for down in range(work.vertical.taps):
            row = output * work.vertical.step + work.vertical.start + down * work.vertical.apart
            if row < 0 or row >= work.vertical.size:
                continue
            for right in range(work.horizontal.taps):
                w = taps + ((down * work.horizontal.taps + right) * source.channels + channel) * size
                begin, end = inside(work.horizontal, right, 0, work.horizontal.outputs)
                column = work.horizontal.start + right * work.horizontal.apart
                x = source.address + image * source.image + row * source.row + column * source.pixel + channel * size
                y = target.address + image * target.image + output * target.row + channel * size
                for place in range(begin, end):
                    seen, made = x + place * work.horizontal.step * source.pixel, y + place * target.pixel
                    _multiply_run(like, seen, made, w, channels, kind)


@compiled
def _multiply_run(like: Any, x: Any, y: Any, w: Any, count: Any, kind: Any) -> None:
    """Add the product of two of the three to the third, channel by channel."""
    size = bytes_of(like)
    lanes = LINE // size
    target, a, b = (y, x, w) if kind == TO_Y else (x, y, w) if kind == TO_X else (w, x, y)
    whole = count // lanes * lanes
    for place in range(0, whole, lanes):
        multiply_vector(like, target + place * size, a + place * size, b + place * size)
    for place in range(whole, count):
        multiply_number(like, target + place * size, a + place * size, b + place * size)
