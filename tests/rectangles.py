"""Small fields with bright rectangles, which a detector learns in seconds, and a training on them."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from hpcai.models.detection.detector import Detector, build
from hpcai.networks import build as network
from hpcai.networks.graph import Graph

SIZE = (48, 64)
CLASSES = 2
ROWS = 15
GRAPH: Graph = network("fasterrcnn8", SIZE, 16, CLASSES)


def fields(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise float32[n, 16, H, W] with a rectangle or two in each, and their rows float32[n, 15, 5].

    A rectangle of class k is bright in channels 3k and 3k + 1. Two rectangles are in different halves of a field.
    """
    random = np.random.default_rng(seed)
    x = random.normal(0, 0.5, (count, 16, *SIZE)).astype(np.float32)
    targets = np.full((count, ROWS, 5), -1, np.float32)
    for frame in range(count):
        for row in range(random.integers(1, 3)):
            height, width = random.integers(12, 28, 2)
            top = random.integers(0, SIZE[0] - height + 1)
            left = row * SIZE[1] // 2 + random.integers(0, SIZE[1] // 2 - width + 1)
            kind = random.integers(CLASSES)
            x[frame, 3 * kind : 3 * kind + 2, top : top + height, left : left + width] += 2
            targets[frame, row] = top, left, top + height, left + width, kind
    return torch.from_numpy(x).to(memory_format=torch.channels_last), torch.from_numpy(targets)


def detector(seed: int = 1) -> Detector:
    return build(GRAPH, seed).to(memory_format=torch.channels_last)


def trained(
    module: Detector, x: torch.Tensor, targets: torch.Tensor, steps: int, batch: int = 16, rate: float = 0.05
) -> list[float]:
    """Train it by SGD on batches in their order; the anchors' first loss at each step."""
    wanted = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(wanted, lr=rate, momentum=0.9, weight_decay=1e-4, fused=True)
    seen = []
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 10)
        part = torch.arange(step * batch, (step + 1) * batch) % len(x)
        losses = module(x[part], targets[part], step)
        losses.sum().backward()
        torch.nn.utils.clip_grad_norm_(wanted, 10.0)
        optimiser.step()
        optimiser.zero_grad()
        seen.append(losses[0].item())
    return seen


def found(module: Detector, x: torch.Tensor, targets: torch.Tensor, overlap: float = 0.5) -> float:
    """Share of the true boxes that one of the two best detections of their class overlaps by at least `overlap`."""
    from hpcai.models.detection.boxes import overlaps

    module.eval()
    with torch.inference_mode():
        detections = module(x)
    module.train()
    hits = []
    for rows, boxes in zip(detections, targets, strict=True):
        for box in boxes[boxes[:, 4] >= 0]:
            alike = rows[rows[:, 5] == box[4]]
            near = overlaps(alike[:2, :4], box[None, :4])
            hits.append(bool((near > overlap).any()))
    return sum(hits) / len(hits)


class Fields:
    """A loader of fields with the training loop's interface."""

    wait_seconds = 0.0

    def __init__(self, x: torch.Tensor, targets: torch.Tensor) -> None:
        self.x, self.targets = x, targets

    def augmentation(self, *_: Any) -> None:
        """Fields are used whole."""

    def measured(self) -> dict[str, float]:
        """Nothing is measured."""
        return {}

    def order(self, sampler: Any, seed: int, epoch: int, ranks: int) -> Any:
        """In the same order as images."""
        from hpcai.data.order import EpochOrder

        return EpochOrder(sampler.size, seed, epoch)

    def __call__(self, batches: Iterable[Any], crops: Any = None) -> Iterator[tuple[torch.Tensor, torch.Tensor, Any]]:
        for indices in batches:
            x = self.x[torch.from_numpy(indices)].contiguous(memory_format=torch.channels_last)
            yield x, self.targets[torch.from_numpy(indices)], indices
