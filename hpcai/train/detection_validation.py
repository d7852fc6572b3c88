"""Validation of a detector by its group: each rank detects in its frames; average precision is over all frames."""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcai.comm.grid import Group
from hpcai.data.order import ValidationShard, validation_indices
from hpcai.data.philox import Integers
from hpcai.data.weather.weather_loader import Loader
from hpcai.detections import CLASS, OVERLAP, SCORE, Detections, detection_tables
from hpcai.detections.coco_evaluation import Matches, matched
from hpcai.formulas.sample_fingerprint import fingerprint
from hpcai.train.detection_quality import quality
from hpcai.train.evaluation_content import EvaluationContent
from hpcai.train.unchecked_content import Unchecked
from hpcai.train.validation import ValidationResult
from hpcai.watch import activity


def _never() -> bool:
    return False


class DetectionValidation:
    """This rank's shard of the validation frames, and the evaluation of a detector on it."""

    def __init__(self, loader: Loader, shard: ValidationShard, classes: int) -> None:
        self.loader = loader
        self.shard = shard
        self.classes = classes
        self.content: EvaluationContent | Unchecked = Unchecked()

    def warm_up(self, module: nn.Module) -> None:
        """Evaluate the first and the last batch, so that every shape has run once."""
        steps = {0, self.shard.steps - 1} if self.shard.steps else set()
        self._found(module, (self.shard.step_positions(step) for step in sorted(steps)))

    def run(self, module: nn.Module, group: Group, stop: Callable[[], bool] = _never) -> ValidationResult:
        """Evaluate this rank's frames in evaluation mode; average precision is over all ranks' frames.

        Ends early if `stop`, called before each batch, returns True. Collective over the group.
        """
        self.content.begin("validation")
        indices, outputs, boxes = self._found(module, validation_indices(self.shard), stop)
        rows = outputs.float().cpu().numpy()
        matches = self.matches(indices, detection_tables.used(rows), boxes.cpu().numpy())
        sums = np.array([len(indices), fingerprint(indices), not_finite(module, rows)], np.uint64)
        group.model.Allreduce(sums.copy(), sums)
        counted, prints, infinite = map(int, sums)
        precision = tuple(quality(matches, group.model).classes)
        return ValidationResult(counted, prints % (1 << 63), infinite, average_precision=precision)

    def matches(
        self, indices: Integers, found: Iterable[Detections], boxes: Iterable[NDArray[Any]], overlap: float = OVERLAP
    ) -> Matches:
        """Detections matched with the true boxes of their frames."""
        return matched(indices.tolist(), found, boxes, overlap, self.classes)

    @torch.inference_mode()
    def _found(
        self, module: nn.Module, indices: Iterable[Integers], stop: Callable[[], bool] = _never
    ) -> tuple[Integers, Tensor, Tensor]:
        """Indices, detections and true boxes of the frames that the loader delivered.

        The outputs stay on the device until the last batch is done.
        """
        module.eval()
        delivered, outputs, boxes = [np.empty(0, np.int64)], [torch.empty(0, 0, 6)], [torch.empty(0, 0, 5)]
        with activity.steps():
            for x, y, delivered_indices in takewhile(lambda _: not stop(), self.loader(indices)):
                activity.beat()
                self.content.note(x, y)
                delivered.append(delivered_indices)
                outputs.append(module(x))
                boxes.append(y.clone())
        module.train()
        return np.concatenate(delivered), torch.cat(outputs[1:] or outputs), torch.cat(boxes[1:] or boxes)


def not_finite(module: nn.Module, outputs: NDArray[np.float32]) -> int:
    """Number of values that are not finite in the used rows of the outputs, in weights and in statistics.

    A detector whose weights are NaN detects nothing, so its outputs alone would not show it.
    """
    used = outputs[outputs[:, :, CLASS] >= 0][:, : SCORE + 1]
    values = [value for value in module.state_dict().values() if value.is_floating_point()]
    finite = torch.stack([value.isfinite().all() for value in values])
    return int(np.count_nonzero(~np.isfinite(used))) + len(values) - int(finite.sum())
