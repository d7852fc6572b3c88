"""Arithmetic of boxes [ymin, xmin, ymax, xmax], half-open, in pixels, float32[..., 4]: offsets, overlaps, clipping."""

from math import log

import torch
from torch import Tensor

Scales = tuple[float, float]
PLAIN: Scales = (1.0, 1.0)
LEAST_SIDE = 1e-2  # pixels: the logarithm of an empty box's side is undefined
MOST_GROWTH = log(1000 / 16)  # largest growth of a side by its offset: an untrained head must not overflow


def encode(boxes: Tensor, anchors: Tensor, scales: Scales = PLAIN) -> Tensor:
    """Offsets float32[..., 4] from anchors to boxes.

    Shifts of the centre in sides of the anchor, vertical and horizontal, times the first scale, and logarithms of the
    sides' ratios, times the second (Girshick et al., Rich Feature Hierarchies, 2014, appendix C).
    """
    centres, sides = _centred(boxes)
    of_anchors, anchor_sides = _centred(anchors)
    moves, growth = (centres - of_anchors) / anchor_sides, (sides / anchor_sides).log()
    return torch.cat([scales[0] * moves, scales[1] * growth], -1)


def decode(offsets: Tensor, anchors: Tensor, scales: Scales = PLAIN) -> Tensor:
    """Boxes from anchors and offsets, the inverse of `encode`; sides grow by 1000 / 16 at most."""
    of_anchors, anchor_sides = _centred(anchors)
    centres = of_anchors + offsets[..., :2] / scales[0] * anchor_sides
    half = anchor_sides * (offsets[..., 2:] / scales[1]).clamp(max=MOST_GROWTH).exp() / 2
    return torch.cat([centres - half, centres + half], -1)


def clipped(boxes: Tensor, height: int, width: int) -> Tensor:
    """Boxes clipped to an image; NaN becomes 0."""
    boxes = boxes.nan_to_num(0.0)
    rows, columns = boxes[..., 0::2].clamp(0, height), boxes[..., 1::2].clamp(0, width)
    return torch.stack([rows[..., 0], columns[..., 0], rows[..., 1], columns[..., 1]], -1)


def overlaps(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of each of first [..., F, 4] with each of second [..., S, 4]: float32[..., F, S].

    0 where neither has an area.
    """
    ymin, xmin, ymax, xmax = (edge.unsqueeze(-1) for edge in first.unbind(-1))
    tops, lefts, bottoms, rights = (edge.unsqueeze(-2) for edge in second.unbind(-1))
    height = (torch.minimum(ymax, bottoms) - torch.maximum(ymin, tops)).clamp_(min=0)
    shared = (torch.minimum(xmax, rights) - torch.maximum(xmin, lefts)).clamp_(min=0).mul_(height)
    union = (area(first).unsqueeze(-1) + area(second).unsqueeze(-2)).sub_(shared)
    return shared.div_(union.clamp_(min=LEAST_SIDE**2))


def area(boxes: Tensor) -> Tensor:
    """Pixels, float32[...]; 0 where a side is negative."""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1)


def _centred(boxes: Tensor) -> tuple[Tensor, Tensor]:
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, (high - low).clamp(min=LEAST_SIDE)
