"""Frames that contain only their number, and detectors with stored answers."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from random_detections import CLASSES, drawn

from hpcai.data.order import ValidationShard
from hpcai.detections import MOST, SCORE, Detections, detection_tables
from hpcai.detections.coco_evaluation import average_precision, matched
from hpcai.train.detection_validation import DetectionValidation

Array = np.ndarray[Any, Any]


class Numbered:
    """A half of a set: the number of its frames, their boxes, and which frames were read."""

    def __init__(self, half: int, frames: int) -> None:
        self.half, self.made = half, drawn(10 + half, frames)
        self.truths = np.array(self.made.truths, np.int32).reshape(-1, detection_tables.TRUE, 5)
        self.read: list[int] = []

    def __call__(self, batches: Iterable[Array]) -> Iterator[tuple[torch.Tensor, torch.Tensor, Array]]:
        """As a loader delivers them, always into the same memory."""
        y = torch.empty(64, detection_tables.TRUE, 5)
        for indices in batches:
            self.read += indices.tolist()
            y[: len(indices)] = torch.from_numpy(self.truths[indices]).float()
            numbers = np.stack([indices, np.full_like(indices, self.half)], 1)
            yield torch.from_numpy(numbers), y[: len(indices)], indices

    def answers(self, model: int) -> list[Detections]:
        """The detections of a model in each frame: scores differ from frame to frame, and some boxes are missing."""
        random = np.random.default_rng([model, self.half])
        return [self._answer(random, rows) for rows in self.made.detections]

    def _answer(self, random: np.random.Generator, rows: Detections) -> Detections:
        seen = rows[random.random(len(rows)) < 0.8].copy()
        seen[:, :4] += random.normal(0, 0.3, (len(seen), 4))
        seen[:, SCORE] = random.random(len(seen)) + 0.01
        return seen[np.argsort(-seen[:, SCORE])]

    def validation(self, shard: ValidationShard) -> DetectionValidation:
        loader: Any = self
        return DetectionValidation(loader, shard, CLASSES)

    def precision(self, found: list[Detections], overlap: float = 0.5, of: Array | None = None) -> list[float | None]:
        """The average precision by definition: all frames, or the frames `of`, evaluated together."""
        frames = np.arange(len(self.truths)) if of is None else of
        matches = matched(frames.tolist(), found, self.truths[frames], overlap, CLASSES)
        return [None if np.isnan(value) else float(value) for value in average_precision(matches)]


def table(answers: list[Detections]) -> torch.Tensor:
    """Answers in the form of a detector's output, float32[frames, 100, 6]."""
    whole = detection_tables.empty(len(answers)).detections
    for rows, own in zip(whole, answers, strict=True):
        rows[: len(own)] = own
    assert whole.shape[1] == MOST
    return torch.from_numpy(whole)


class Answers(torch.nn.Module):
    """A detector that answers only in evaluation mode."""

    def __init__(self, *halves: list[Detections]) -> None:
        super().__init__()
        self.tables = [table(half) for half in halves]
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.training and torch.is_inference_mode_enabled()
        assert len(set(x[:, 1].tolist())) == 1
        return self.tables[int(x[0, 1])][x[:, 0]]
