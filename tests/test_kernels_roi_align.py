"""RoIAlign: every backend holds to the reference in both directions, and the reference to what it stands for."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from on_host import SCHEDULES, planted, run

from hpcai.kernels import roi_align
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.roi_align import cupy_gpu, numba_cpu, reference

OWN, OTHER = 2, 1
SCALE = 0.25


class Case(NamedTuple):
    """What both directions are given."""

    features: Any
    regions: Any
    level: Any
    gradient: Any
    scale: float
    side: int
    samples: int

    @property
    def settings(self) -> tuple[int, float, int, int]:
        """What stands between the arrays."""
        return OWN, self.scale, self.side, self.samples


def drawn(size: tuple[int, int, int, int], number: int, side: int = 3, samples: int = 2, seed: int = 0) -> Case:
    """Regions within and across the edges, far outside, without size, turned round, and as large as the image."""
    random = np.random.default_rng(seed)
    images, height, width, channels = size
    image = np.array([height, width]) / SCALE
    corner = random.uniform(-0.3, 1.1, (images, number, 2)) * image
    regions = np.concatenate([corner, corner + random.exponential(0.3, (images, number, 2)) * image], 2)
    special = [[0, 0, *image], [5, 5, 5, 5], [-900, 4, -800, 9], [9, 9, 2, 3], [*(image - 0.5), *(image + 3)]]
    regions[:, : len(special)] = np.reshape(special[:number], (-1, 4))
    level = random.choice([OWN, OWN, OTHER, -1], (images, number)).astype(np.int32)
    level[:, : len(special)] = OWN
    features = random.standard_normal(size).astype(np.float32)
    gradient = random.standard_normal((images, number, side, side, channels)).astype(np.float32)
    return Case(features, regions.astype(np.float32), level, gradient, SCALE, side, samples)


CASES = {
    "usual": drawn((2, 12, 15, 24), 20, 7),
    "odd": drawn((1, 9, 7, 5), 12, 3, 3, 1),
    "one sample": drawn((2, 6, 8, 17), 9, 2, 1, 2),
    "one bin": drawn((2, 6, 8, 33), 9, 1, 4, 3),
    "one pixel": drawn((2, 1, 1, 3), 9, 2, 2, 4),
    "one row": drawn((1, 1, 9, 70), 9, 2, 2, 5),
    "many": drawn((1, 6, 7, 5), 80, 2, 2, 6),
    "no regions": drawn((2, 4, 4, 3), 0),
    "no images": drawn((0, 4, 4, 3), 4),
}


def forward(by: Any, case: Case, **options: int) -> Any:
    """Bins; what was not written is NaN."""
    out = np.full(case.gradient.shape, np.nan, np.float32)
    by.forward(case.features, case.regions, case.level, *case.settings, out, **options)
    return out


def backward(by: Any, case: Case, into: Any = None, **options: int) -> Any:
    into = np.zeros_like(case.features) if into is None else into
    by.backward(case.gradient, case.regions, case.level, *case.settings, into, **options)
    return into


def check_forward(found: Any, case: Case) -> None:
    """Every bin within the tolerance of its sum, and those of other levels as they were."""
    exact, squares = (np.full(found.shape, np.nan) for _ in range(2))
    squared = case._replace(features=case.features**2)
    reference.forward(case.features, case.regions, case.level, *case.settings, exact)
    reference.forward(squared.features, case.regions, case.level, *case.settings, squares)
    own = case.level == OWN
    assert np.isnan(found[~own]).all() and np.isfinite(found[own]).all()
    # weights are at most 1: their squares weigh less than they do
    allowed = roi_align.SPEC.tolerance(4 * case.samples**2) * np.sqrt(squares[own])
    assert (abs(found[own] - exact[own]) <= allowed).all()


def check_backward(found: Any, case: Case) -> None:
    exact, squares = (np.zeros(found.shape) for _ in range(2))
    reference.backward(case.gradient, case.regions, case.level, *case.settings, exact)
    reference.backward(case.gradient**2, case.regions, case.level, *case.settings, squares)
    terms = case.side**2 * 4 * case.samples**2 * case.level.shape[1]
    assert (abs(found - exact) <= roi_align.SPEC.tolerance(terms) * np.sqrt(squares)).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_numba_holds_to_the_reference(name: str, threads: int) -> None:
    check_forward(forward(numba_cpu, CASES[name], threads=threads), CASES[name])
    check_backward(backward(numba_cpu, CASES[name], threads=threads), CASES[name])


@pytest.mark.parametrize("name", ["usual", "one row"])
def test_the_number_of_threads_changes_no_bit(name: str) -> None:
    for direction in (forward, backward):
        first, *others = (direction(numba_cpu, CASES[name], threads=threads) for threads in (1, 2, 7))
        assert all(np.array_equal(first, other, equal_nan=True) for other in others)


def test_the_gradient_is_added() -> None:
    case = CASES["usual"]
    before = np.random.default_rng(1).standard_normal(case.features.shape).astype(np.float32)
    assert np.allclose(backward(numba_cpu, case, before.copy()), before + backward(numba_cpu, case), atol=1e-5)


@pytest.mark.parametrize("fault", ["a row", "a channel", "a level"])
def test_the_comparison_sees_faults(fault: str) -> None:
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
    """Numerically, in float64: the difference that each pixel makes, and <g, A x> = <A' g, x>."""
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


def test_points_outside_weigh_nothing_beyond_one_pixel() -> None:
    features = np.ones((1, 4, 4, 1), np.float32)
    level = np.zeros((1, 1), np.int32)
    for low, expected in ((-0.5, 1.0), (-0.5078125, 0.0), (4.5, 1.0), (4.5078125, 0.0)):  # points at low - 1/2
        out = np.zeros((1, 1, 1, 1, 1), np.float32)
        for by in (reference, numba_cpu):
            by.forward(features, np.array([[[low, 2, low, 2]]], np.float32), level, 0, 1.0, 1, 1, out)
            assert out.item() == expected


THREADS = 2 * cupy_gpu.GROUP  # fewer than on a GPU, so that channels and regions take several turns


def by_cuda(made: Callable[..., Launch], case: Case, schedule: str, library: ctypes.CDLL | None = None) -> Any:
    """What a kernel makes of a case, run on the host."""
    into = np.zeros_like(case.features) if made == cupy_gpu.spreading else np.full_like(case.gradient, np.nan)
    given = case.gradient if made == cupy_gpu.spreading else case.features
    memory = (given, case.regions, case.level, into)
    assert all(array.flags.c_contiguous for array in memory)
    sizes = (OWN, case.scale, *case.level.shape, *case.features.shape[1:], case.side, case.samples)
    run(made(tuple(np.uint64(array.ctypes.data) for array in memory), *sizes, threads=THREADS), schedule, library)
    return into


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("no ")])
def test_the_cuda_kernels_run_on_the_host_hold_to_the_reference(name: str, schedule: str) -> None:
    check_forward(by_cuda(cupy_gpu.pooling, CASES[name], schedule), CASES[name])
    check_backward(by_cuda(cupy_gpu.spreading, CASES[name], schedule), CASES[name])


POOLED = (cupy_gpu.POOL, cupy_gpu.pooling, check_forward)
SPREAD = (cupy_gpu.SPREAD, cupy_gpu.spreading, check_backward)
BARRIER = "wait_for_block();"
FAULTS = [(POOLED, BARRIER, "", 0), *((SPREAD, BARRIER, "", place) for place in range(1, 5))]
FAULTS += [
    (POOLED, "bin % side * samples", "bin / side * samples", 0),
    (SPREAD, "k - side, samples, x", "k - side, samples, y", 0),
    (SPREAD, "first + group * GROUP", "group * GROUP", 0),
]


@pytest.mark.parametrize(("kernel", "right", "wrong", "place"), FAULTS)
def test_a_fault_of_the_cuda_kernels_is_seen(
    kernel: tuple[Any, ...], right: str, wrong: str, place: int, tmp_path: Path
) -> None:
    program, made, check = kernel
    library, case = planted(program, tmp_path, right, wrong, place), CASES["many"]

    def wrongly(schedule: str) -> bool:
        try:
            check(by_cuda(made, case, schedule, library), case)
        except AssertionError:
            return True
        return False

    assert any(map(wrongly, SCHEDULES))


@pytest.mark.skipif("not torch.cuda.is_available()", reason="NO GPU: roi_align.cu NOT RUN ON A DEVICE")
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_holds_to_the_reference(name: str) -> None:
    case = CASES[name]
    with torch.cuda.stream(torch.cuda.Stream()):
        features, regions, level, gradient = (torch.from_numpy(array).cuda() for array in case[:4])
        out, into = torch.full_like(gradient, torch.nan), torch.zeros_like(features)
        cupy_gpu.forward(features, regions, level, *case.settings, out)
        cupy_gpu.backward(gradient, regions, level, *case.settings, into)
        check_forward(out.cpu().numpy(), case)
        check_backward(into.cpu().numpy(), case)


def test_what_does_not_fit_is_refused() -> None:
    fitting = [(2, 5, 6, 3), (2, 7, 4), (2, 7), (2, 7, 4, 4, 3)]
    roi_align.check(*fitting, 2)
    for place, wrong in ((0, (1, 5, 6, 3)), (0, (2, 0, 6, 3)), (1, (2, 7, 5)), (2, (2, 6)), (3, (2, 7, 4, 3, 3))):
        changed = [*fitting]
        changed[place] = wrong
        with pytest.raises(ValueError, match="do not fit together"):
            roi_align.check(*changed, 2)


def test_spec() -> None:
    """Two regions of one image, 2 x 2 bins of 3 x 3 points of 4 pixels, 5 channels."""
    shape = roi_align.Shape(1, 6, 7, 5, 2, 2, 3)
    assert roi_align.SPEC.operations(shape) == 2 * (2 * (2 * 2) * (3 * 3) * 4 * 5)
    assert roi_align.SPEC.nbytes(shape) == 4 * (6 * 7 * 5 + 2 * 4 * 5 + 2 * 5)
