"""The four losses of a detector (Ren et al., Faster R-CNN, 2015, eq. 1; Girshick, Fast R-CNN, 2015, eq. 1).

Each is a sum divided by the fixed number of anchors or regions that are trained on in a batch, so that the mean of the
gradients of several ranks is that of all their images.
"""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, smooth_l1_loss

from hpcai.models.detection.assign import Sample, rows
from hpcai.models.detection.boxes import encode
from hpcai.models.detection.proposals import REGION_SCALES

BEND = 1 / 9  # transition of the smooth L1 loss from square to linear
UNUSED = -100


def anchor_losses(scores: Tensor, offsets: Tensor, anchors: Tensor, chosen: Sample) -> tuple[Tensor, Tensor]:
    """Score and offset loss of scores float32[N, A] and offsets float32[N, A, 4], for sampled anchors float32[A, 4]."""
    said = scores.gather(1, chosen.indices)
    each = binary_cross_entropy_with_logits(said, chosen.foreground.to(said.dtype), reduction="none")
    distance = _distance(rows(offsets, chosen.indices), encode(chosen.boxes, anchors[chosen.indices]))
    return _mean(each, chosen.there), _mean(distance, chosen.foreground)


def region_losses(scores: Tensor, offsets: Tensor, regions: Tensor, chosen: Sample) -> tuple[Tensor, Tensor]:
    """Score and offset loss of sampled regions float32[N, K, 4].

    scores float32[N, K, 1 + classes], background first; offsets float32[N, K, classes, 4].
    """
    labels = torch.where(chosen.foreground, chosen.classes + 1, torch.where(chosen.there, 0, UNUSED))
    of_classes = cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=UNUSED, reduction="sum")
    own = chosen.classes[..., None, None].expand(-1, -1, 1, 4)
    distance = _distance(offsets.gather(2, own).squeeze(2), encode(chosen.boxes, regions, REGION_SCALES))
    return of_classes / labels.numel(), _mean(distance, chosen.foreground)


def _distance(offsets: Tensor, wanted: Tensor) -> Tensor:
    return smooth_l1_loss(offsets, wanted, reduction="none", beta=BEND).sum(-1)


def _mean(each: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, each, 0.0).sum() / each.numel()
