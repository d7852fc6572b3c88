"""Quantisation on CPUs in Numba: an image is read for its largest magnitude, and again from the cache to be rounded."""

from typing import Any, NamedTuple

import numpy as np

from ..cpu.compiled import compiled
from ..cpu.load_store import read, write
from ..cpu.parallel import parallel_for
from ..cpu.rounding import AT_ONCE, MAGNITUDE, bytes_of_run, largest_bits, nearest_of_run, scaled_run
from ..cpu.simd import lanes
from . import HIGHEST, LEAST

WORD = 4  # bytes of a dot product; channels are padded to this multiple
UNSIGNED = 128  # offset of unsigned bytes; flips the highest bit
FLOAT = 4  # bytes
GROUP = AT_ONCE * lanes(FLOAT)  # numbers that `largest_bits` processes at a time


class Images(NamedTuple):
    """Contiguous channels-last images of float32, and the zero padding that their bytes get."""

    images: int
    height: int
    width: int
    channels: int
    groups: int = 1
    down: int = 0
    right: int = 0

    @property
    def bytes_size(self) -> tuple[int, int, int, int]:
        """Shape of the bytes; the channels of each group are padded to whole words."""
        together = self.groups * WORD * -(-self.channels // (self.groups * WORD))
        return self.images, self.height + 2 * self.down, self.width + 2 * self.right, together


def quantise(images: Images, x: int, q: Any, scales: Any, signed: bool, threads: int) -> None:
    """Fill q and float32[images], one scale each. q has the shape `bytes_size`: int8, or uint8, the number + 128.

    x: address of the images.
    """
    flipped = np.uint8(0 if signed else UNSIGNED)
    numbers = (*images, *q.shape[1:])
    if threads == 1:
        _quantise(numbers, x, q.ctypes.data, scales, flipped, 0, images.images)
    else:
        _quantise_on_threads(threads, numbers, x, q.ctypes.data, scales, flipped)


@compiled
def _quantise_on_threads(threads: Any, numbers: Any, x: Any, q: Any, scales: Any, flipped: Any) -> None:
    parallel_for(_quantise_part, threads, ((numbers[0] + threads - 1) // threads, numbers, x, q, scales, flipped))


@compiled
def _quantise_part(thread: Any, part: Any, numbers: Any, x: Any, q: Any, scales: Any, flipped: Any) -> None:
    first = min(thread * part, numbers[0])
    _quantise(numbers, x, q, scales, flipped, first, min(first + part, numbers[0]))


@compiled
def _quantise(numbers: Any, x: Any, q: Any, scales: Any, flipped: Any, first: Any, last: Any) -> None:
    """Quantise some of the images."""
    _, height, width, channels, groups, down, right, rows, columns, together = numbers
    size = height * width * channels
    for image in range(first, last):
        source, target = x + image * size * FLOAT, q + image * rows * columns * together
        scales[image] = _scale_of(source, size)
        factor = _factor_of(scales[image])
        if rows > height or columns > width or together > channels:
            _fill(target, rows * columns * together, flipped)
        for row in range(height):
            source_ = source + row * width * channels * FLOAT
            to = target + ((row + down) * columns + right) * together
            if together == channels:
                _bytes(to, source_, width * channels, factor, flipped)
            else:
                _bytes_by_group(to, source_, width, channels // groups, groups, together // groups, factor, flipped)


@compiled
def _scale_of(source: Any, size: Any) -> Any:
    """Bits of magnitudes are ordered like the magnitudes, with NaN above all."""
    bits = largest_bits(source, size)
    for place in range(size // GROUP * GROUP, size):
        bits = max(bits, read(np.int32(0), source + place * FLOAT) & MAGNITUDE)
    largest = np.int32(bits).view(np.float32)
    return np.float32(0.0) if largest < np.float32(LEAST) else largest / np.float32(HIGHEST)


@compiled
def _factor_of(scale: Any) -> Any:
    return np.float32(0.0) if scale == 0 else np.float32(1.0) / scale


@compiled
def _fill(target: Any, nbytes: Any, value: Any) -> None:
    words = nbytes // 8
    word = np.int64(value) * np.int64(0x0101010101010101)
    for place in range(words):
        write(word, target + place * 8)
    for place in range(words * 8, nbytes):
        write(value, target + place)


@compiled
def _bytes(target: Any, source: Any, count: Any, factor: Any, flipped: Any) -> None:
    """Quantise contiguous numbers."""
    for place in range(bytes_of_run(target, source, count, factor, flipped), count):
        write(_byte(source + place * FLOAT, factor, flipped), target + place)


@compiled
def _byte(source: Any, factor: Any, flipped: Any) -> Any:
    return np.uint8((np.int32(np.rint(read(np.float32(0), source) * factor)) ^ flipped) & 255)


@compiled
def _bytes_by_group(
    target: Any, source: Any, pixels: Any, channels: Any, groups: Any, apart: Any, factor: Any, flipped: Any
) -> None:
    """Quantise groups of channels, `apart` bytes apart."""
    for place in range(pixels * groups):
        _bytes(target + place * apart, source + place * channels * FLOAT, channels, factor, flipped)


def nearest(x: int, result: int, scales: Any, size: int, threads: int) -> None:
    """Dequantised values q * scale of float32[count, size] at x, one scale a row, stored at `result`."""
    if threads == 1:
        _nearest(x, result, scales, size, 0, len(scales))
    else:
        _nearest_on_threads(threads, x, result, scales, size)


@compiled
def _nearest_on_threads(threads: Any, x: Any, result: Any, scales: Any, size: Any) -> None:
    parallel_for(_nearest_part, threads, ((len(scales) + threads - 1) // threads, x, result, scales, size))


@compiled
def _nearest_part(thread: Any, part: Any, x: Any, result: Any, scales: Any, size: Any) -> None:
    first = min(thread * part, len(scales))
    _nearest(x, result, scales, size, first, min(first + part, len(scales)))


@compiled
def _nearest(x: Any, result: Any, scales: Any, size: Any, first: Any, last: Any) -> None:
    for row in range(first, last):
        source_, to = x + row * size * FLOAT, result + row * size * FLOAT
        factor = _factor_of(scales[row])
        for place in range(nearest_of_run(to, source_, size, factor, scales[row]), size):
            whole = np.rint(read(np.float32(0), source_ + place * FLOAT) * factor)
            write(whole * scales[row], to + place * FLOAT)


@compiled
def sums_of_filters(q: Any, sums: Any) -> None:
    """int32[F]: 128 times the sum of each filter int8[F, K], the excess from unsigned bytes of images."""
    for row in range(q.shape[0]):
        total = 0
        for place in range(q.shape[1]):
            total += q[row, place]
        sums[row] = UNSIGNED * total


def scale(y: int, images: int, pixels: int, scales: Any, by_filter: Any, sums: Any, threads: int) -> None:
    """In place: int32[images, pixels, F] at y become float32, (sum - sums[F]) * (scales[image] * by_filter[F])."""
    factors = np.empty((threads, len(sums)), np.float32)
    if threads == 1:
        _scale(y, pixels, scales, by_filter, sums, factors[0], 0, images * pixels)
    else:
        _scale_on_threads(threads, y, images * pixels, pixels, scales, by_filter, sums, factors)


@compiled
def _scale_on_threads(
    threads: Any, y: Any, whole: Any, pixels: Any, scales: Any, by_filter: Any, sums: Any, factors: Any
) -> None:
    part = (whole + threads - 1) // threads
    parallel_for(_scale_part, threads, (part, y, whole, pixels, scales, by_filter, sums, factors))


@compiled
def _scale_part(
    thread: Any, part: Any, y: Any, whole: Any, pixels: Any, scales: Any, by_filter: Any, sums: Any, factors: Any
) -> None:
    first = min(thread * part, whole)
    _scale(y, pixels, scales, by_filter, sums, factors[thread], first, min(first + part, whole))


@compiled
def _scale(y: Any, pixels: Any, scales: Any, by_filter: Any, sums: Any, factors: Any, first: Any, last: Any) -> None:
    """Rescale some of the pixels, counted through all images."""
    pixel = first
    while pixel < last:
        image = pixel // pixels
        end = min(last, (image + 1) * pixels)
        for place in range(len(sums)):
            factors[place] = scales[image] * by_filter[place]
        for here in range(pixel, end):
            _scale_pixel(y + here * len(sums) * FLOAT, sums, factors)
        pixel = end


@compiled
def _scale_pixel(at: Any, sums: Any, factors: Any) -> None:
    for place in range(scaled_run(at, sums.ctypes.data, factors.ctypes.data, len(sums)), len(sums)):
        number = np.float32(np.int32(read(np.int32(0), at + place * FLOAT) - sums[place]))
        write(number * factors[place], at + place * FLOAT)
