"""Check of the losses of known outputs against plain formulas, at inputs drawn from the system's entropy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpcai.formulas.score import LARGEST
from hpcai.frozen import detector_losses, recipe
from hpcai.frozen.detector_losses import ANCHOR_SCALES, REGION_SCALES, Candidate
from hpcai.frozen.recipe import Settings
from hpcai.models.detection import losses
from hpcai.models.detection.assign import Sample
from hpcai.train.objective import Classification, Objective

SAMPLES, IMAGES, CANDIDATES, CLASSES = 16, 2, 6, 3
SPREADS = (0.1, 1.0, 10.0)  # of logits


def loss_deviations(settings: Settings, objective: Objective, classes: int) -> Iterator[tuple[str, float]]:
    """What is compared, and its relative deviation. classes: of the data, for which logits are drawn."""
    random = np.random.default_rng()
    if isinstance(objective, Classification) or "SMOOTHING" in settings:
        yield from _classification(settings, objective, classes, random)
    else:
        yield from _detection(objective, random)


def _classification(
    settings: Settings, objective: Objective, classes: int, random: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """The loss of the logits of some samples of any classes, and its gradient by each logit."""
    labels = random.integers(0, classes, SAMPLES)
    values = random.choice(SPREADS) * random.standard_normal((SAMPLES, classes))
    logits = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    loss: Any = objective(lambda x: x, logits, torch.from_numpy(labels), 0)
    loss.backward()
    expected, gradient = recipe.cross_entropy(settings, values, labels)
    found = logits.grad.numpy() if logits.grad is not None else np.zeros_like(values)
    yield "loss by SMOOTHING", deviation(float(loss.detach()), expected)
    yield "gradient of the loss", float(np.abs(found - gradient).max() / np.abs(gradient).max())


def _detection(objective: Objective, random: np.random.Generator) -> Iterator[tuple[str, float]]:
    """The four losses of some anchors and regions, and the sum of four."""
    parts = torch.from_numpy(random.random(4))
    yield "sum of the losses", deviation(float(objective(lambda *_: parts, parts, parts, 0)), float(parts.sum()))
    places, true = _boxes(random, CANDIDATES), _boxes(random, IMAGES * CANDIDATES)
    labels = random.integers(-1, CLASSES + 1, IMAGES * CANDIDATES)
    chosen = [Candidate(places[i % CANDIDATES], true[i], int(label)) for i, label in enumerate(labels)]
    scores = random.standard_normal((IMAGES * CANDIDATES, 1 + CLASSES))
    offsets = random.standard_normal((IMAGES * CANDIDATES, CLASSES, 4))
    own = offsets[np.arange(len(labels)), np.maximum(labels, 1) - 1]
    sampled, by_image = _sample(labels, true), (IMAGES, CANDIDATES, -1)
    of_anchors = losses.anchor_losses(
        _tensor(scores[:, 0]).reshape(by_image[:2]), _tensor(own).reshape(by_image), _tensor(places), sampled
    )
    regions = _tensor(places).expand(IMAGES, -1, -1)
    offsets_by_class = _tensor(offsets).reshape(IMAGES, CANDIDATES, CLASSES, 4)
    of_regions = losses.region_losses(_tensor(scores).reshape(by_image), offsets_by_class, regions, sampled)
    expected = (
        detector_losses.score_loss_of_anchors(scores[:, 0].tolist(), chosen),
        detector_losses.offset_loss(own, chosen, ANCHOR_SCALES),
        detector_losses.score_loss_of_regions(scores, chosen),
        detector_losses.offset_loss(own, chosen, REGION_SCALES),
    )
    names = (f"{what} loss of {which}" for which in ("anchors", "regions") for what in ("score", "offset"))
    for name, found, value in zip(names, (*of_anchors, *of_regions), expected, strict=True):
        yield name, deviation(float(found), value)


def _sample(labels: NDArray[np.int64], true: NDArray[np.float64]) -> Sample:
    """The assignment of the candidates, in their own order."""
    by_image = _tensor(labels).reshape(IMAGES, CANDIDATES)
    order = torch.arange(CANDIDATES).expand(IMAGES, -1)
    boxes = _tensor(true).reshape(IMAGES, CANDIDATES, 4)
    return Sample(order, by_image > 0, by_image >= 0, boxes, (by_image - 1).clamp(min=0))


def _boxes(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    corners = random.uniform(0, 20, (count, 2))
    return np.concatenate([corners, corners + random.uniform(3, 30, (count, 2))], 1)


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def deviation(found: float, expected: float) -> float:
    """Relative, of the larger one; 0 if both are equal, the largest if one is no number."""
    if found == expected:
        return 0.0
    share = abs(found - expected) / max(abs(found), abs(expected))
    return share if share <= LARGEST else LARGEST
