"""Region proposals and detections from the heads' outputs, by decoding and non-maximum suppression."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hpcai.models.detection.assign import rows
from hpcai.models.detection.boxes import clipped, decode
from hpcai.models.detection.regions import nms

PROPOSAL_OVERLAP = 0.7  # overlap above which the lower proposal is suppressed
DETECTION_OVERLAP = 0.5  # overlap of detections of one class
LEAST_SIDE = 1.0  # least side of a proposal, pixels
LEAST_SCORE = 0.01  # least score of a detection
REGION_SCALES = (10.0, 5.0)  # scales of the offsets of regions, which are smaller than those of anchors
NOTHING, NOBODY = float("-inf"), -1  # score and class of an unused row


class Level(NamedTuple):
    """Outputs of the proposal head for a level's anchors float32[A, 4].

    Scores float32[N, A], offsets float32[N, A, 4].
    """

    anchors: Tensor
    scores: Tensor
    offsets: Tensor


@torch.no_grad()
def proposals(levels: Sequence[Level], image: tuple[int, int], before: int, after: int) -> tuple[Tensor, Tensor]:
    """Proposed boxes float32[N, after, 4], most likely first, and a mask of valid ones, bool[N, after].

    The `before` best of each level, without those that overlap a better one of their level; image is (height, width).
    """
    best = [_best(level, image, before) for level in levels]
    groups = [torch.full_like(scores, number, dtype=torch.int32) for number, (_, scores) in enumerate(best)]
    boxes, scores = (torch.cat(parts, 1) for parts in zip(*best, strict=True))
    kept = nms(boxes, scores, torch.cat(groups, 1), PROPOSAL_OVERLAP, after)
    return rows(boxes, kept.clamp(min=0)), kept >= 0


def _best(level: Level, image: tuple[int, int], count: int) -> tuple[Tensor, Tensor]:
    scores, indices = level.scores.topk(min(count, level.scores.shape[1]))
    boxes = clipped(decode(rows(level.offsets, indices), level.anchors[indices]), *image)
    small = (boxes[..., 2:] - boxes[..., :2]).amin(-1) < LEAST_SIDE
    return boxes, scores.masked_fill(small, NOTHING)


def detections(
    scores: Tensor, offsets: Tensor, regions: Tensor, there: Tensor, image: tuple[int, int], most: int
) -> Tensor:
    """float32[N, most, 6]: rows ymin, xmin, ymax, xmax, score, class, the highest score first; rest 0, -inf and -1.

    scores float32[N, R, 1 + classes], the background first; offsets float32[N, R, classes, 4]; regions float32[N, R, 4]
    of which those are there that bool[N, R] says. A region may be reported as several classes.
    """
    boxes = clipped(decode(offsets, regions.unsqueeze(2), REGION_SCALES), *image)
    likely = scores.softmax(-1)[..., 1:]
    likely = torch.where((likely >= LEAST_SCORE) & there.unsqueeze(-1), likely, NOTHING)
    classes = torch.arange(likely.shape[-1], device=scores.device).expand_as(likely)
    flat = boxes.flatten(1, 2), likely.flatten(1), classes.flatten(1)
    kept = nms(*flat, DETECTION_OVERLAP, most)
    indices, missing = kept.clamp(min=0), kept < 0
    found = [
        rows(flat[0], indices).masked_fill(missing.unsqueeze(-1), 0.0),
        flat[1].gather(1, indices).masked_fill(missing, NOTHING).unsqueeze(-1),
        flat[2].gather(1, indices).masked_fill(missing, NOBODY).unsqueeze(-1),
    ]
    return torch.cat(found, -1)
