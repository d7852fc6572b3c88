"""Validation of a detector by its group: boxes are found by all ranks, and their average precision is that of all."""

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
from hpcai.detections.coco_evaluation import Judged, matched
from hpcai.formulas.sample_fingerprint import fingerprint
from hpcai.train.detection_quality import quality
from hpcai.train.validation import Tally


def _never() -> bool:
    return False


class DetectionValidation:
    """This rank's part of the validation frames, and how a detector of so many classes is judged on them."""

    def __init__(self, loader: Loader, shard: ValidationShard, classes: int) -> None:
        self.loader = loader
        self.shard = shard
        self.classes = classes

    def warm_up(self, module: nn.Module) -> None:
        """Judge the first and the last batch, so that every shape has run once."""
        steps = {0, self.shard.steps - 1} if self.shard.steps else set()
        self._found(module, (self.shard.step_positions(step) for step in sorted(steps)))

    def run(self, module: nn.Module, group: Group, stop: Callable[[], bool] = _never) -> Tally:
        """Judge this rank's frames with the module in evaluation mode; the precision is of all ranks' frames together.

        Where `stop`, asked before each batch, says so, the rest is left out. Collective over the group.
        """
        indices, outputs, boxes = self._found(module, validation_indices(self.shard), stop)
        rows = outputs.float().cpu().numpy()
        judged = self.judged(indices, detection_tables.used(rows), boxes.cpu().numpy())
        sums = np.array([len(indices), fingerprint(indices), blown(module, rows)], np.uint64)
        group.model.Allreduce(sums.copy(), sums)
        counted, prints, infinite = map(int, sums)
        precision = tuple(quality(judged, group.model).classes)
        return Tally(counted, prints % (1 << 63), infinite, average_precision=precision)

    def judged(
        self, indices: Integers, found: Iterable[Detections], boxes: Iterable[NDArray[Any]], overlap: float = OVERLAP
    ) -> Judged:
        """What frames, by their indices, show of their true boxes."""
        return matched(indices.tolist(), found, boxes, overlap, self.classes)

    @torch.inference_mode()
    def _found(
        self, module: nn.Module, indices: Iterable[Integers], stop: Callable[[], bool] = _never
    ) -> tuple[Integers, Tensor, Tensor]:
        """Of the frames that the loader delivered: indices, what was found, and the true boxes.

        The outputs stay on the device until the last is there.
        """
        module.eval()
        delivered, outputs, boxes = [np.empty(0, np.int64)], [torch.empty(0, 0, 6)], [torch.empty(0, 0, 5)]
        for x, y, own in takewhile(lambda _: not stop(), self.loader(indices)):
            delivered.append(own)
            outputs.append(module(x))
            boxes.append(y.clone())
        module.train()
        return np.concatenate(delivered), torch.cat(outputs[1:] or outputs), torch.cat(boxes[1:] or boxes)


def blown(module: nn.Module, outputs: NDArray[np.float32]) -> int:
    """How many numbers are not finite, of the used rows of the outputs and of the weights and statistics.

    Where weights are no numbers a detector finds nothing, in which nothing is wrong.
    """
    used = outputs[outputs[:, :, CLASS] >= 0][:, : SCORE + 1]
    values = [value for value in module.state_dict().values() if value.is_floating_point()]
    finite = torch.stack([value.isfinite().all() for value in values])
    return int(np.count_nonzero(~np.isfinite(used))) + len(values) - int(finite.sum())
