"""Regions for RoIAlign, and the allowed deviations of bins and gradients from the reference."""

from typing import Any, NamedTuple

import numpy as np

from hpcai.kernels import roi_align
from hpcai.kernels.roi_align import reference

OWN, OTHER = 2, 1
SCALE = 0.25


class Case(NamedTuple):
    """The inputs of both directions."""

    features: Any
    regions: Any
    level: Any
    gradient: Any
    scale: float
    side: int
    samples: int

    @property
    def settings(self) -> tuple[int, float, int, int]:
        """The arguments between the arrays."""
        return OWN, self.scale, self.side, self.samples


def drawn(size: tuple[int, int, int, int], number: int, side: int = 3, samples: int = 2, seed: int = 0) -> Case:
    """Regions within and across the edges, far outside, without size, inverted, and as large as the image."""
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


def check_forward(found: Any, case: Case) -> None:
    """Every bin is within the tolerance of its sum, and bins of other levels are unchanged."""
    exact, squares = (np.full(found.shape, np.nan) for _ in range(2))
    squared = case._replace(features=case.features**2)
    reference.forward(case.features, case.regions, case.level, *case.settings, exact)
    reference.forward(squared.features, case.regions, case.level, *case.settings, squares)
    own = case.level == OWN
    assert np.isnan(found[~own]).all() and np.isfinite(found[own]).all()
    # weights are at most 1: their squares are smaller
    allowed = roi_align.SPEC.tolerance(4 * case.samples**2) * np.sqrt(squares[own])
    assert (abs(found[own] - exact[own]) <= allowed).all()


def check_backward(found: Any, case: Case) -> None:
    exact, squares = (np.zeros(found.shape) for _ in range(2))
    reference.backward(case.gradient, case.regions, case.level, *case.settings, exact)
    reference.backward(case.gradient**2, case.regions, case.level, *case.settings, squares)
    terms = case.side**2 * 4 * case.samples**2 * case.level.shape[1]
    assert (abs(found - exact) <= roi_align.SPEC.tolerance(terms) * np.sqrt(squares)).all()
