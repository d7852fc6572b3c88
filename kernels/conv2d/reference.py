"""Convolution and its gradients as products L . R in float64 (im2col). Frozen: made to be obvious, not fast."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ..spec import FORWARD, INPUT_GRADIENT, Block, Float32, Float64, Tensors
from . import Pair, Shape

BLOCK_ELEMENTS = 2**17
Places = NDArray[np.intp]


def blocks(direction: str, data: Tensors, out: Float32, shape: Shape) -> Iterator[Block]:
    """Pairs of `out`, a provider's y, dx or dw, and the factors of its exact value; every element once."""
    if direction == FORWARD:
        return forward(data.x, data.w, out, shape)
    if direction == INPUT_GRADIENT:
        return input_gradient(data.g, data.w, out, shape)
    return weight_gradient(data.x, data.g, out, shape)


def forward(x: Float32, w: Float32, y: Float32, shape: Shape) -> Iterator[Block]:
    """Rows: output pixels. Columns: filters. Inner: channel and kernel tap."""
    return _correlation(lambda images: _padded(x[images], shape.padding), w, y, shape.stride, shape)


def input_gradient(g: Float32, w: Float32, dx: Float32, shape: Shape) -> Iterator[Block]:
    """Cross-correlation of the dilated gradient, stride 1, with flipped weights. Rows: input pixels. Columns: channels.
    """
    return _correlation(lambda images: _dilated(g[images], shape), _flipped(w, shape.groups), dx, (1, 1), shape)


def weight_gradient(x: Float32, g: Float32, dw: Float32, shape: Shape) -> Iterator[Block]:
    """Rows: channel and kernel tap. Columns: filters. Inner: image and output pixel."""
    filters, channels = shape.filters // shape.groups, shape.w[1]
    for group in range(shape.groups):
        outputs = slice(group * filters, (group + 1) * filters)
        R = np.moveaxis(g[:, outputs], 1, -1).reshape(-1, filters).astype(np.float64)
        for part in _slices(channels, BLOCK_ELEMENTS // (len(R) * shape.kernel[0] * shape.kernel[1])):
            inputs = slice(group * channels + part.start, group * channels + part.stop)
            taps = _windows(_padded(x[:, inputs], shape.padding), shape.kernel, shape.stride, shape.dilation)
            L = taps.transpose(1, 4, 5, 0, 2, 3).reshape(-1, len(R))
            yield Block(L, R, dw[outputs, part].reshape(filters, -1).T.astype(np.float64))


def terms(direction: str, data: Tensors, shape: Shape, place: tuple[int, ...]) -> tuple[Float64, Float64]:
    """The factors, term by term, of one element of a direction's result; without terms that meet padding."""
    first, second, *pixel = place
    filters, channels = shape.filters // shape.groups, shape.w[1]
    if direction == FORWARD:
        (rows, down), (columns, across) = (_taps(shape, axis, pixel[axis]) for axis in (0, 1))
        inputs = slice(second // filters * channels, (second // filters + 1) * channels)
        return _flat(data.x[first, inputs], rows, columns), _flat(data.w[second], down, across)
    if direction == INPUT_GRADIENT:
        (rows, down), (columns, across) = (_readers(shape, axis, pixel[axis]) for axis in (0, 1))
        outputs = slice(second // channels * filters, (second // channels + 1) * filters)
        return (
            _flat(data.g[first, outputs], rows, columns),
            _flat(data.w[outputs, second % channels], down, across),
        )
    (rows, down), (columns, across) = (_pixels(shape, axis, pixel[axis]) for axis in (0, 1))
    x = data.x[:, first // filters * channels + second]
    return _flat(x, rows, columns), _flat(data.g[:, first], down, across)


def _flat(images: Float32, rows: Places, columns: Places) -> Float64:
    """The pixels of some rows and columns of all images."""
    return images[:, rows[:, None], columns].astype(np.float64).reshape(-1)


def _taps(shape: Shape, axis: int, output: int) -> tuple[Places, Places]:
    """Input pixels of an output pixel along an axis, and their taps."""
    taps = np.arange(shape.kernel[axis])
    pixels = output * shape.stride[axis] - shape.padding[axis] + taps * shape.dilation[axis]
    inside = (pixels >= 0) & (pixels < shape.x[2 + axis])
    return pixels[inside], taps[inside]


def _readers(shape: Shape, axis: int, pixel: int) -> tuple[Places, Places]:
    """Output pixels that read an input pixel along an axis, and the taps by which they do."""
    taps = np.arange(shape.kernel[axis])
    outputs, rest = np.divmod(pixel + shape.padding[axis] - taps * shape.dilation[axis], shape.stride[axis])
    inside = (rest == 0) & (outputs >= 0) & (outputs < shape.y[2 + axis])
    return outputs[inside], taps[inside]


def _pixels(shape: Shape, axis: int, tap: int) -> tuple[Places, Places]:
    """Input pixels that meet a tap along an axis, and their output pixels."""
    outputs = np.arange(shape.y[2 + axis])
    pixels = outputs * shape.stride[axis] - shape.padding[axis] + tap * shape.dilation[axis]
    inside = (pixels >= 0) & (pixels < shape.x[2 + axis])
    return pixels[inside], outputs[inside]


def _correlation(
    image: Callable[[slice], Float64], w: Float32, out: Float32, stride: Pair, shape: Shape
) -> Iterator[Block]:
    filters, channels = len(w) // shape.groups, w.shape[1]
    pixels, inner = out.shape[2] * out.shape[3], w[0].size
    width = max(inner, filters)
    for images in _slices(len(out), BLOCK_ELEMENTS // (pixels * width)):
        source = image(images)
        for group in range(shape.groups):
            outputs = slice(group * filters, (group + 1) * filters)
            R = w[outputs].reshape(filters, inner).T.astype(np.float64)
            inputs = source[:, group * channels : (group + 1) * channels]
            taps = _windows(inputs, shape.kernel, stride, shape.dilation)
            for rows in _slices(out.shape[2], BLOCK_ELEMENTS // (len(source) * out.shape[3] * width)):
                L = taps[:, :, rows].transpose(0, 2, 3, 1, 4, 5).reshape(-1, inner)
                C = np.moveaxis(out[images, outputs, rows], 1, -1).reshape(-1, filters)
                yield Block(L, R, C.astype(np.float64))


def _slices(total: int, size: int) -> list[slice]:
    size = max(1, size)
    return [slice(first, min(first + size, total)) for first in range(0, total, size)]


def _windows(image_NCHW: Float64, kernel: Pair, stride: Pair, dilation: Pair) -> Float64:
    """N x C x Ho x Wo x Kh x Kw: the windows of the output pixels."""
    span = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    windows = sliding_window_view(image_NCHW, span, axis=(2, 3))
    return windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def _padded(x_NCHW: Float32, padding: Pair) -> Float64:
    vertical, horizontal = padding
    return np.pad(x_NCHW.astype(np.float64), ((0, 0), (0, 0), (vertical, vertical), (horizontal, horizontal)))


def _flipped(w_OIHW: Float32, groups: int) -> Float32:
    """Exchange input and output channels within each group and flip the taps."""
    filters, channels, height, width = w_OIHW.shape
    grouped = w_OIHW.reshape(groups, filters // groups, channels, height, width).swapaxes(1, 2)
    return grouped.reshape(groups * channels, filters // groups, height, width)[:, :, ::-1, ::-1]


def _dilated(g_NCHW: Float32, shape: Shape) -> Float64:
    """The gradient with stride - 1 zeros between its pixels, padded so that its window h belongs to input pixel h."""
    border = [d * (k - 1) for d, k in zip(shape.dilation, shape.kernel, strict=True)]
    canvas = np.zeros((*g_NCHW.shape[:2], shape.height + border[0], shape.width + border[1]))
    positions = [np.arange(g_NCHW.shape[2 + a]) * shape.stride[a] + border[a] - shape.padding[a] for a in (0, 1)]
    # Padding beyond the kernel creates outputs that see no input; they are dropped.
    inside = [
        np.flatnonzero((position >= 0) & (position < canvas.shape[2 + a])) for a, position in enumerate(positions)
    ]
    rows, columns = (position[keep] for position, keep in zip(positions, inside, strict=True))
    canvas[:, :, rows[:, None], columns] = g_NCHW[:, :, inside[0][:, None], inside[1]]
    return canvas
