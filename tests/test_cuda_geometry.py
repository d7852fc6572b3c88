"""The pixels and taps of convolutions for GPUs, compared with a count one by one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hpcai.kernels.conv2d.cuda.geometry import (
    LARGEST,
    MOST_NUMBERS,
    Axis,
    ConvolutionLayer,
    Reach,
    check,
    divisor,
    forward_reach,
    geometry,
    gradient_reaches,
    phase_reaches,
    weights,
)

NUMBERS = st.integers(0, 2**31 - 1)


def quotient(number: int, by: Any) -> int:
    """As kernels/cuda/types.cuh computes it, in 32-bit words."""
    assert 0 <= by.factor < 2**32 and 0 <= by.shift < 32
    return number * by.factor >> 32 >> by.shift if by.factor else number


@given(NUMBERS, st.integers(1, 2**31 - 1))
@example(2**31 - 1, 2**31 - 1)
@example(2**31 - 2, 2**31 - 1)
@example(2**31 - 1, 1)
@example(2**31 - 1, 3)
def test_quotients_by_multiplication_are_exact(number: int, by: int) -> None:
    made = divisor(by)
    for near in {number, number // by * by, number // by * by - 1, min(number // by * by + by - 1, 2**31 - 1)}:
        assert near < 0 or quotient(near, made) == near // by


@given(st.integers(0, 2**24), st.integers(2, 2**12))
def test_a_factor_that_is_one_less_gives_wrong_quotients(number: int, by: int) -> None:
    made, multiple = divisor(by), (number // by + 1) * by
    wrong = made._replace(factor=made.factor - 1)
    assert quotient(multiple, made) == multiple // by
    assert quotient(2**31 // by * by - by, wrong) != 2**31 // by - 1 or by & (by - 1)


@st.composite
def axes(draw: Any) -> Axis:
    """Any axis of a convolution: stride beyond the window, padding beyond it, taps that read padding only."""
    size, kernel = draw(st.integers(1, 20)), draw(st.integers(1, 7))
    stride, padding, dilation = draw(st.integers(1, 5)), draw(st.integers(0, 9)), draw(st.integers(1, 4))
    result = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    assume(result >= 1)
    return Axis(size, result, kernel, stride, padding, dilation)


def meetings(axis: Axis) -> Counter[tuple[int, int, int]]:
    """Every pixel of the input with every pixel of the result and the tap that connects them, one by one."""
    pairs = product(range(axis.result), range(axis.kernel))
    seen = ((pixel * axis.stride - axis.padding + tap * axis.dilation, pixel, tap) for pixel, tap in pairs)
    return Counter(each for each in seen if 0 <= each[0] < axis.size)


def seen_by(reach: Reach, size: int) -> Iterator[tuple[int, int, int]]:
    """Pixel of the result, pixel of the source of that size and tap, counted like geometry.cuh."""
    for number, tap in product(range(reach.pixels), range(reach.taps)):
        source = number * reach.step + reach.start + tap * reach.tap
        if 0 <= source < size:
            yield reach.first + number * reach.stride, source, reach.first_tap + tap * reach.tap_step


@given(axes())
def test_forward_reaches_cover_the_window(axis: Axis) -> None:
    found = Counter((source, pixel, tap) for pixel, source, tap in seen_by(forward_reach(axis), axis.size))
    assert found == meetings(axis)


@given(axes())
def test_gradients_reach_every_pixel_by_every_tap_once(axis: Axis) -> None:
    reaches = list(gradient_reaches(axis))
    found = Counter(each for reach in reaches for each in seen_by(reach, axis.result))
    assert found == meetings(axis)
    pixels = [reach.first + number * reach.stride for reach in reaches for number in range(reach.pixels)]
    assert sorted(pixels) == [*range(axis.size)]  # also pixels that no tap reaches: their gradient is 0


@given(axes())
def test_a_phase_with_a_wrong_start_gives_other_pixels(axis: Axis) -> None:
    reaches = list(gradient_reaches(axis))
    assume(axis.result > 1 and all(reach.taps for reach in reaches))
    wrong = [reach._replace(start=reach.start + 1) for reach in reaches]
    assume(meetings(axis))
    assert Counter(each for reach in wrong for each in seen_by(reach, axis.result)) != meetings(axis)


@given(axes(), axes())
def test_kernel_parameters_describe_pixels_taps_and_weights(down: Axis, across: Axis) -> None:
    layer = ConvolutionLayer(3, 8, 16, 2, down, across)
    pixels = steps = 0
    for one, other in phase_reaches(layer):
        fields = geometry(layer, one, other, layer.filters)
        pixels, steps = pixels + fields[0], max(steps, fields[1])
        assert fields[1] == one.taps * other.taps * layer.filters and fields[0] == 3 * one.pixels * other.pixels
        of_filters, of_taps, skipped, row, column, own_steps, channels = weights(layer, one, other)
        taps = [(one.first_tap + r * one.tap_step, other.first_tap + s * other.tap_step) for r, s in _taps(one, other)]
        assert own_steps == fields[1] and channels == 8
        for (r, s), (down_tap, across_tap) in zip(_taps(one, other), taps, strict=True):
            assert skipped + r * row + s * column == (down_tap * across.kernel + across_tap) * channels
            step = (r * other.taps + s) * layer.filters
            assert (quotient(step, of_filters), quotient(step // layer.filters, of_taps)) == (r * other.taps + s, r)
    assert pixels == 3 * down.size * across.size
    assert steps == max(one.taps * other.taps for one, other in phase_reaches(layer)[:1]) * layer.filters


def _taps(one: Reach, other: Reach) -> list[tuple[int, int]]:
    return list(product(range(one.taps), range(other.taps)))


COORDINATES = st.tuples(*[st.integers(-LARGEST, LARGEST)] * 2)
BEYOND = 2**14  # of geometry.cuh


@given(st.tuples(*[st.integers(1, LARGEST)] * 2), COORDINATES, COORDINATES)
@example((LARGEST, LARGEST), (-LARGEST, -LARGEST), (-LARGEST, LARGEST))
@example((LARGEST, LARGEST), (LARGEST, -LARGEST), (LARGEST, LARGEST))
@example((1, 1), (LARGEST, LARGEST), (-LARGEST, -LARGEST))
def test_both_coordinates_are_checked_in_one_word(
    size: tuple[int, int], window: tuple[int, int], tap: tuple[int, int]
) -> None:
    """As geometry.cuh compares them at once: for allowed values, no half of a word changes the sign of the other."""
    last, within = both(size[0] - 1, size[1] - 1), [0 <= w + t < s for s, w, t in zip(size, window, tap, strict=True)]
    assert inside(last, both(*window) + both(*tap)) == all(within)
    assert not inside(last, both(*window) + both(BEYOND, tap[1]))
    assert not inside(last, both(-BEYOND - 1, window[1]) + both(*tap))
    assert not inside(last, both(-BEYOND - 1, window[1]) + both(BEYOND, tap[1]))


def both(down: int, across: int) -> int:
    """`both` of geometry.cuh."""
    return (down << 16) + across & 0xFFFFFFFF


def inside(last: int, place: int) -> bool:
    """`inside` of geometry.cuh."""
    place &= 0xFFFFFFFF
    return ((place | (last - place)) & 0x80008000) == 0


PLAIN = ConvolutionLayer(2, 8, 8, 1, Axis(20, 20, 3, 1, 1, 1), Axis(20, 20, 3, 1, 1, 1))


def test_sizes_beyond_the_counters_are_refused_with_numbers() -> None:
    check(PLAIN)
    largest = Axis(LARGEST, LARGEST - 2, 3, 1, 0, 1)
    check(replace(PLAIN, down=largest, across=Axis(1, 1, 1, 1, 0, 1)))
    for axis, most in (
        (Axis(LARGEST + 1, LARGEST + 1, 1, 1, 0, 1), LARGEST + 1),
        (Axis(20, 18018, 3, 1, 9000, 1), 18018),
        (Axis(20, 2, 3, 1, 4500, 4509), 13527),
    ):
        with pytest.raises(ValueError, match=rf"coordinates reach {most}; up to {LARGEST} are allowed"):
            check(replace(PLAIN, across=axis))
    with pytest.raises(ValueError, match=rf"2147485696 pixels or steps; up to {MOST_NUMBERS} are allowed"):
        check(replace(PLAIN, images=(2**31 + 2048) // 64, down=Axis(8, 8, 1, 1, 0, 1), across=Axis(8, 8, 1, 1, 0, 1)))
