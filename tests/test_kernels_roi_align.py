"""RoIAlign: every backend agrees with the reference in both directions, and the reference with the definition."""

from typing import Any

import numpy as np
import pytest
import torch
from roi_align_cases import CASES, OWN, Case, check_backward, check_forward

from hpcai.kernels import roi_align
from hpcai.kernels.roi_align import cupy_gpu, numba_cpu, reference


def forward(by: Any, case: Case, **options: int) -> Any:
    """Bins; unwritten ones are NaN."""
    out = np.full(case.gradient.shape, np.nan, np.float32)
    by.forward(case.features, case.regions, case.level, *case.settings, out, **options)
    return out


def backward(by: Any, case: Case, into: Any = None, **options: int) -> Any:
    into = np.zeros_like(case.features) if into is None else into
    by.backward(case.gradient, case.regions, case.level, *case.settings, into, **options)
    return into


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_numba_agrees_with_the_reference(name: str, threads: int) -> None:
    check_forward(forward(numba_cpu, CASES[name], threads=threads), CASES[name])
    check_backward(backward(numba_cpu, CASES[name], threads=threads), CASES[name])


@pytest.mark.parametrize("name", ["usual", "one row"])
def test_the_number_of_threads_changes_no_bit(name: str) -> None:
    for direction in (forward, backward):
        first, *others = (direction(numba_cpu, CASES[name], threads=threads) for threads in (1, 2, 7))
        assert all(np.array_equal(first, other, equal_nan=True) for other in others)


def test_the_gradient_is_added_to_the_result() -> None:
    case = CASES["usual"]
    before = np.random.default_rng(1).standard_normal(case.features.shape).astype(np.float32)
    assert np.allclose(backward(numba_cpu, case, before.copy()), before + backward(numba_cpu, case), atol=1e-5)


@pytest.mark.parametrize("fault", ["a row", "a channel", "a level"])
def test_the_comparison_detects_faults(fault: str) -> None:
    case = CASES["usual"]
    bins = forward(numba_cpu, case)
    if fault == "a row":
        bins[0, 0, 3] *= 1 + 1e-4
    elif fault == "a channel":
        bins[0, 0, 3, 3, 5] = 0
    else:
        bins[tuple(np.argwhere(case.level != OWN)[0])] = 0
    with pytest.raises(AssertionError):
        check_forward(bins, case)
    maps = backward(numba_cpu, case)
    maps[0, 5, 5, 3] *= 1.01
    with pytest.raises(AssertionError):
        check_backward(maps, case)


@pytest.mark.parametrize("name", ["usual", "odd", "one sample", "one pixel"])
def test_the_gradient_is_that_of_the_forward_pass(name: str) -> None:
    """Numerically, in float64: the difference due to each pixel, and <g, A x> = <A' g, x>."""
    case = CASES[name]
    exact, bins = np.zeros(case.features.shape), np.zeros(case.gradient.shape)
    reference.backward(case.gradient, case.regions, case.level, *case.settings, exact)
    reference.forward(case.features, case.regions, case.level, *case.settings, bins)
    assert np.isclose((case.gradient * bins).sum(), (exact * case.features).sum())
    random = np.random.default_rng(2)
    for _ in range(5):
        pixel = tuple(random.integers(0, case.features.shape))
        changed, after = case.features.copy(), np.zeros(case.gradient.shape)
        changed[pixel] += 1
        step = float(changed[pixel]) - float(case.features[pixel])
        reference.forward(changed, case.regions, case.level, *case.settings, after)
        assert np.isclose((case.gradient * (after - bins)).sum() / step, exact[pixel], atol=1e-7)


def test_a_plane_is_read_at_the_centres_of_the_bins() -> None:
    """Bilinear interpolation is exact on a plane; pixel k of the level is centred at k + 1/2 of its own units."""
    rows, columns = np.mgrid[:16, :20] + 0.5
    features = np.ascontiguousarray(np.stack([rows, columns], -1)[None], np.float32)
    regions = np.array([[[8, 12, 40, 68]]], np.float32)
    out = np.zeros((1, 1, 4, 4, 2))
    reference.forward(features, regions, np.zeros((1, 1), np.int32), 0, 0.25, 4, 3, out)
    centres = (np.arange(4) + 0.5) / 4
    assert np.allclose(out[0, 0, :, :, 0], (2 + 8 * centres)[:, None])
    assert np.allclose(out[0, 0, :, :, 1], (3 + 14 * centres)[None, :])


def test_points_more_than_one_pixel_outside_have_weight_zero() -> None:
    features = np.ones((1, 4, 4, 1), np.float32)
    level = np.zeros((1, 1), np.int32)
    for low, expected in ((-0.5, 1.0), (-0.5078125, 0.0), (4.5, 1.0), (4.5078125, 0.0)):  # points at low - 1/2
        out = np.zeros((1, 1, 1, 1, 1), np.float32)
        for by in (reference, numba_cpu):
            by.forward(features, np.array([[[low, 2, low, 2]]], np.float32), level, 0, 1.0, 1, 1, out)
            assert out.item() == expected


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: roi_align.cu NOT RUN ON A DEVICE")
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_agrees_with_the_reference(name: str) -> None:
    case = CASES[name]
    with torch.cuda.stream(torch.cuda.Stream()):
        features, regions, level, gradient = (torch.from_numpy(array).cuda() for array in case[:4])
        out, into = torch.full_like(gradient, torch.nan), torch.zeros_like(features)
        cupy_gpu.forward(features, regions, level, *case.settings, out)
        cupy_gpu.backward(gradient, regions, level, *case.settings, into)
        check_forward(out.cpu().numpy(), case)
        check_backward(into.cpu().numpy(), case)


def test_arguments_of_wrong_sizes_are_refused() -> None:
    fitting = [(2, 5, 6, 3), (2, 7, 4), (2, 7), (2, 7, 4, 4, 3)]
    roi_align.check(*fitting, 2)
    for place, wrong in ((0, (1, 5, 6, 3)), (0, (2, 0, 6, 3)), (1, (2, 7, 5)), (2, (2, 6)), (3, (2, 7, 4, 3, 3))):
        changed = [*fitting]
        changed[place] = wrong
        with pytest.raises(ValueError, match="do not fit together"):
            roi_align.check(*changed, 2)


def test_operations_and_bytes_by_hand() -> None:
    """Two regions of one image, 2 x 2 bins of 3 x 3 points of 4 pixels, 5 channels."""
    shape = roi_align.Shape(1, 6, 7, 5, 2, 2, 3)
    assert roi_align.SPEC.operations(shape) == 2 * (2 * (2 * 2) * (3 * 3) * 4 * 5)
    assert roi_align.SPEC.nbytes(shape) == 4 * (6 * 7 * 5 + 2 * 4 * 5 + 2 * 5)
