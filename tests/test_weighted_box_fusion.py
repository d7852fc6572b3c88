"""Weighted box fusion, by hand and by properties that hold for any models."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_detections import drawn

from hpcai.detections.boxes import areas, iou
from hpcai.detections.weighted_box_fusion import fused

NOTHING = np.empty((0, 6), np.float32)


def rows(*detections: list[float]) -> Any:
    return np.array(detections, np.float32).reshape(-1, 6)


def found_by(seed: int, models: int) -> list[Any]:
    """The detections of each model in a frame; boxes without area are omitted."""
    return [rows[areas(rows) > 0] for rows in drawn(seed, models).detections]


def apart(seed: int, threshold: float = 0.55) -> Any:
    """Detections of a frame that are all in clusters of their own."""
    found = np.concatenate(found_by(seed, 3))
    kept: list[int] = []
    for place in range(len(found)):
        rivals = [other for other in kept if found[other, 5] == found[place, 5]]
        if not rivals or iou(found[[place]], found[rivals]).max() <= threshold:
            kept.append(place)
    return found[kept]


def test_coordinates_are_weighted_by_scores_and_scores_are_averaged() -> None:
    """Boxes that overlap by 2/3, of scores 0.8 and 0.4: a third of the way from the first to the second."""
    found = fused([rows([0, 0, 10, 10, 0.8, 1]), rows([0, 2, 10, 12, 0.4, 1])])
    assert np.allclose(found, [[0, 2 / 3, 10, 10 + 2 / 3, 0.6, 1]])


def test_boxes_found_by_few_models_have_a_lower_score() -> None:
    models = [rows([0, 0, 10, 10, 0.9, 1]), rows([0, 0, 10, 10, 0.6, 1]), NOTHING]
    assert np.allclose(fused(models), [[0, 0, 10, 10, 0.75 * 2 / 3, 1]])
    assert np.allclose(fused(models[::2]), [[0, 0, 10, 10, 0.9 / 2, 1]])


def test_more_boxes_than_models_do_not_raise_the_score() -> None:
    assert np.allclose(fused([rows([0, 0, 10, 10, 0.9, 1], [0, 0, 10, 10, 0.6, 1])]), [[0, 0, 10, 10, 0.75, 1]])


def test_classes_are_not_mixed() -> None:
    found = fused([rows([0, 0, 10, 10, 0.8, 1]), rows([0, 0, 10, 10, 0.4, 2])])
    assert np.allclose(found, [[0, 0, 10, 10, 0.4, 1], [0, 0, 10, 10, 0.2, 2]])


def test_a_box_is_compared_with_the_fused_one() -> None:
    """The third overlaps the first by only 0.38, but the fusion of the first two by 0.54."""
    models = [rows([0, 0, 10, 10, 0.5, 0]), rows([0, 3, 10, 13, 0.5, 0]), rows([0, 4.5, 10, 14.5, 0.1, 0])]
    assert len(fused(models, 0.5)) == 1 and len(fused(models[::2], 0.5)) == 2


def test_a_box_joins_the_cluster_it_overlaps_most() -> None:
    models = [rows([0, 0, 10, 10, 0.9, 0], [0, 6, 10, 16, 0.8, 0]), rows([0, 4, 10, 14, 0.5, 0])]
    found = fused(models, 0.3)
    assert np.allclose(found[:, 4], [0.65, 0.45])
    assert found[0, 1] == pytest.approx((6 * 0.8 + 4 * 0.5) / 1.3) and found[1, 1] == 0


@pytest.mark.parametrize("models", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", range(4))
def test_fusion_of_identical_models_gives_their_boxes(models: int, seed: int) -> None:
    """To the bit."""
    found = apart(seed)
    expected = found[np.lexsort((*found.T[:4], found[:, 5], -found[:, 4]))]
    assert len(found) > 5 and np.array_equal(fused([found] * models), expected)


@settings(max_examples=20)
@given(st.integers(0, 2**20), st.randoms(use_true_random=False))
def test_the_order_of_models_and_of_their_rows_does_not_matter(seed: int, random: Any) -> None:
    models = found_by(seed, 4)
    shuffled = [each[random.sample(range(len(each)), len(each))] for each in random.sample(models, len(models))]
    assert np.array_equal(fused(shuffled), fused(models))


@settings(max_examples=30)
@given(st.integers(0, 2**20), st.integers(1, 5))
def test_fused_boxes_are_within_the_extent_of_the_boxes(seed: int, count: int) -> None:
    models = found_by(seed, count)
    given_rows, found = np.concatenate(models), fused(models, most=10**6)
    assert len(found) <= len(given_rows) and (np.diff(found[:, 4]) <= 0).all()
    assert sorted(set(found[:, 5])) == sorted(set(given_rows[:, 5]))
    for row in found:
        of_class = given_rows[given_rows[:, 5] == row[5]]
        assert (of_class[:, :4].min(axis=0) <= row[:4]).all() and (row[:4] <= of_class[:, :4].max(axis=0)).all()
        assert 0 < row[4] <= of_class[:, 4].max()


def test_the_best_are_kept_and_boxes_without_score_or_area_are_omitted() -> None:
    many = rows(*([0, 5 * k, 4, 5 * k + 4, 0.1 + k / 1000, 0] for k in range(150)))
    assert len(fused([many])) == 100 and np.isclose(fused([many])[0, 4], 0.249)
    assert len(fused([rows([0, 0, 4, 4, 0, 1], [3, 3, 3, 9, 0.5, 1])])) == 0
    assert fused([NOTHING, NOTHING]).shape == (0, 6) and fused([NOTHING]).dtype == np.float32
