"""Random frames: true boxes, and detections of medium quality, with scores of few different values."""

from typing import Any, NamedTuple

import numpy as np

CLASSES = 4
FIELD = (40, 60)


class Drawn(NamedTuple):
    """Detections float32[n, 6] and true boxes int32[15, 5] of each frame."""

    detections: list[Any]
    truths: list[Any]


def drawn(seed: int, frames: int = 12, most: int = 15, classes: int = CLASSES) -> Drawn:
    """Some frames have no true box, some no detection; a class may have no true box, or no detection."""
    random = np.random.default_rng(seed)
    pairs = [_frame(random, most, classes) for _ in range(frames)]
    return Drawn([found for found, _ in pairs], [true for _, true in pairs])


def _frame(random: np.random.Generator, most: int, classes: int) -> tuple[Any, Any]:
    true = _boxes(random, int(random.integers(0, most + 1)))
    labels = random.integers(0, classes, len(true))
    truths = np.full((most, 5), -1, np.int32)
    truths[random.permutation(most)[: len(true)]] = np.column_stack([true, labels])
    copies = random.integers(0, len(true), 2 * len(true)) if len(true) else np.empty(0, np.int64)
    near = true[copies] + random.normal(0, 1.2, (len(copies), 4))
    near[::4] = true[copies][::4]  # exactly right
    wrong = _boxes(random, int(random.integers(0, 8)))
    right = np.where(random.random(len(copies)) < 0.8, labels[copies], random.integers(0, classes, len(copies)))
    boxes = np.concatenate([near, wrong])
    boxes = np.concatenate([boxes[:, :2], np.maximum(boxes[:, :2], boxes[:, 2:])], 1)
    found_labels = np.concatenate([right, random.integers(0, classes, len(wrong))])
    scores = random.integers(1, 12, len(boxes)) / 12
    found = np.column_stack([boxes, scores, found_labels]).astype(np.float32)
    return found[random.permutation(len(found))], truths


def _boxes(random: np.random.Generator, count: int) -> Any:
    corner = random.integers(0, FIELD, (count, 2))
    return np.concatenate([corner, corner + random.integers(2, 14, (count, 2))], 1)
