"""Losses of known outputs against plain formulas: sound ones agree, and each altered one is found."""

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch.nn.functional import cross_entropy

from hpcai.models.detection import losses
from hpcai.train.loss_check import loss_deviations
from hpcai.train.objective import Classification, Detection, Objective

LIMIT = 1e-9  # of the check of the recipe
SMOOTHED = {"SMOOTHING": 0.1}


def worst(objective: Objective, settings: dict[str, Any], classes: int = 10) -> float:
    """The largest deviation."""
    return max(value for _, value in loss_deviations(settings, objective, classes))


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_classifiers_is_that_of_the_formula(classes: int, smoothing: float) -> None:
    for _ in range(20):
        assert worst(Classification(smoothing), {"SMOOTHING": smoothing}, classes) <= LIMIT


def test_the_losses_of_detectors_are_those_of_the_formulas() -> None:
    for _ in range(50):
        assert worst(Detection(1, 0), {}) <= LIMIT


def smoothed_over_others(network: Any, x: Any, y: Any, step: int) -> Any:
    """Smoothing by the classes other than the label alone."""
    logits = network(x)
    others = logits.log_softmax(1).sum(1) - logits.log_softmax(1).gather(1, y[:, None])[:, 0]
    return 0.9 * cross_entropy(logits, y) - 0.1 * (others / (logits.shape[1] - 1)).mean()


def of_ten_classes(network: Any, x: Any, y: Any, step: int) -> Any:
    """Classes after the tenth are left out of the smoothing."""
    logits = network(x)
    return 0.9 * cross_entropy(logits, y) - 0.1 * logits.log_softmax(1)[:, :10].mean()


def half_a_gradient(network: Any, x: Any, y: Any, step: int) -> Any:
    """The right value, and half of its gradient."""
    loss = cross_entropy(network(x), y, label_smoothing=0.1)
    return loss / 2 + loss.detach() / 2


@pytest.mark.parametrize("altered", [smoothed_over_others, of_ten_classes, half_a_gradient, Classification(0.0)])
def test_another_loss_is_found(altered: Objective) -> None:
    assert worst(altered, SMOOTHED, 11) > LIMIT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BEND", 1.0),
        ("REGION_SCALES", (1.0, 1.0)),
        ("_mean", lambda each, counted: torch.where(counted, each, 0.0).sum() / counted.sum().clamp(min=1)),
        ("cross_entropy", lambda *arguments, **named: 1.01 * cross_entropy(*arguments, **named)),
        ("encode", lambda boxes, anchors, scales=(1.0, 1.0): boxes - anchors),
    ],
)
def test_another_loss_of_a_detector_is_found(name: str, value: Any) -> None:
    with patch.object(losses, name, value):
        assert max(worst(Detection(1, 0), {}) for _ in range(5)) > LIMIT


def test_a_loss_left_out_of_the_sum_is_found() -> None:
    def three(network: Any, x: Any, y: Any, step: int) -> Any:
        return network(x, y, 0)[:3].sum()

    assert worst(three, {}) > LIMIT
