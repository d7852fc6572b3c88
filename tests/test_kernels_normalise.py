"""The normalisation of images: every value, in every layout of the bytes."""

import numpy as np
import pytest

from hpcai.kernels.normalise.numba_cpu import normalise, transform_and_normalise
from hpcai.kernels.normalise.reference import normalised, transformed_and_normalised


@pytest.mark.parametrize("shape", [(5, 3, 7, 9), (2, 1, 28, 28), (3, 4, 1, 5), (0, 3, 8, 8), (2, 3, 0, 4)])
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_every_value_equals_the_reference(shape: tuple[int, ...], last: bool) -> None:
    generator = np.random.default_rng(1)
    pixels = generator.integers(0, 256, shape, np.uint8)
    if last:
        pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    scale, shift = (generator.standard_normal(shape[1], np.float32) for _ in range(2))
    made = normalise(pixels, scale, shift)
    assert made.dtype == np.float32 and made.shape == shape
    assert made.transpose(0, 2, 3, 1).flags.c_contiguous
    exact = normalised(pixels, scale, shift)
    allowed = 2.0**-23 * (255 * np.abs(scale) + np.abs(shift)).reshape(1, -1, 1, 1)
    assert (np.abs(made - exact) <= allowed).all()


def test_parts_of_a_batch_and_strided_images_are_normalised() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (6, 3, 8, 10), np.uint8)[::2, :, ::-1, 1::2]
    scale, shift = np.array([1, 2, 3], np.float32), np.array([-1, 0, 1], np.float32)
    assert np.array_equal(normalise(pixels, scale, shift), normalised(pixels, scale, shift))


@pytest.mark.parametrize("kind", ["channels first", "channels last", "every other"])
def test_rotated_mirrored_and_normalised_fields_equal_the_reference(kind: str) -> None:
    generator = np.random.default_rng(3)
    fields = generator.standard_normal((5, 4, 6, 8), np.float32)
    if kind == "channels last":
        fields = np.ascontiguousarray(fields.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    if kind == "every other":
        fields = np.repeat(fields, 2, axis=3)[..., ::2]
    transforms = np.array([[0, 0], [3, 0], [7, 1], [0, 1], [1, 1]])
    negated, mean = np.array([True, False, True, False]), generator.standard_normal(4, np.float32)
    std = 1 + generator.random(4, np.float32)
    out = np.full((5, 6, 8, 4), np.nan, np.float32)
    transform_and_normalise(fields, transforms, negated, mean, std, out)
    exact = transformed_and_normalised(fields, transforms, negated, mean, std)
    assert np.abs(out.transpose(0, 3, 1, 2) - exact).max() <= 2.0**-22 * np.abs(exact).max()


@pytest.mark.parametrize("transforms", [[[8, 0]], [[-1, 0]], [[0, 0], [0, 0]]])
def test_a_rotation_beyond_the_map_is_refused(transforms: list[list[int]]) -> None:
    ones, fields, out = np.ones(4, np.float32), np.zeros((1, 4, 6, 8), np.float32), np.zeros((1, 6, 8, 4), np.float32)
    with pytest.raises(AssertionError):
        transform_and_normalise(fields, np.array(transforms), ones == 0, ones, ones, out)
