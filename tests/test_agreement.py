"""The agreement of two detectors on a frame: exactly 1 for identical detections, 0 without common ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_detections import drawn

from hpcai.detections import CLASS, SCORE
from hpcai.detections.agreement import LEAST, agreement

NONE = np.empty((0, 6), np.float32)


def rows(*found: tuple[float, ...]) -> Any:
    return np.array(found, np.float32).reshape(-1, 6)


def frame(seed: int) -> Any:
    """Detections in a frame, with arbitrary scores; some rows twice."""
    random = np.random.default_rng(seed)
    found = drawn(seed, 1).detections[0].copy()
    found[:, SCORE] = random.random(len(found), np.float32)
    return np.concatenate([found, found[: random.integers(0, 3)]])


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_agreement_is_a_share_and_does_not_depend_on_the_orders_of_rows(one: int, other: int) -> None:
    a, b = frame(one), frame(other)
    found, random = agreement(a, b), np.random.default_rng(one)
    assert 0 <= found <= 1 + 1e-12
    assert agreement(random.permutation(a), random.permutation(b)) == found
    assert found < 1 or np.array_equal(a[np.lexsort(a.T)], b[np.lexsort(b.T)])


@given(st.integers(0, 2**32))
def test_identical_detections_agree_by_exactly_one(seed: int) -> None:
    """Also if boxes have no area: identical models are detected by this value alone."""
    a = frame(seed)
    a[:1, 2:4] = a[:1, :2]
    assert agreement(a, np.random.default_rng(seed).permutation(a)) == 1.0


@given(st.integers(0, 2**32), st.floats(0.001, 0.4))
def test_lower_scores_agree_less(seed: int, share: float) -> None:
    a = frame(seed)
    b = a.copy()
    b[:, SCORE] *= np.float32(1 - share)
    assert agreement(a, b) < 1 or not a[:, SCORE].any()


def test_frames_without_detections_agree_with_each_other_alone() -> None:
    something = rows((0, 0, 4, 4, 0.5, 1))
    assert agreement(NONE, NONE) == 1.0
    assert agreement(something, NONE) == agreement(NONE, something) == 0.0


@pytest.mark.parametrize(
    ("b", "shared"),
    [
        ((0, 0, 4, 4, 0.5, 1), 1.0),
        ((0, 0, 4, 4, 0.25, 1), 2 * 0.25 / 0.75),
        ((0, 0, 4, 3, 0.5, 1), 0.75),
        ((0, 0, 4, 2, 0.5, 1), LEAST),
        ((0, 0, 4, 1.9, 0.5, 1), 0.0),
        ((0, 0, 4, 4, 0.5, 0), 0.0),
        ((8, 8, 12, 12, 0.5, 1), 0.0),
    ],
)
def test_agreement_of_one_box(b: tuple[float, ...], shared: float) -> None:
    assert agreement(rows((0, 0, 4, 4, 0.5, 1)), rows(b)) == pytest.approx(shared, abs=1e-6)


def test_each_box_is_matched_once_with_the_nearest() -> None:
    one = rows((0, 0, 4, 4, 0.5, 1))
    two = rows((0, 0, 4, 3, 0.9, 1), (0, 0, 4, 4, 0.5, 1))
    assert agreement(one, two) == agreement(two, one) == pytest.approx(2 * 0.5 / 1.9)
    assert two[0, CLASS] == 1
