"""Assignment of anchors and regions to true boxes, and sampling of those trained on.

Nothing here synchronises with the device: what does not apply is masked, and random choices are by priorities from a
fixed table.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpcai.data.philox import Purpose, stream, uniform64
from hpcai.models.detection.boxes import overlaps

CHOSEN = 1 << 31  # larger than every priority
FRAME_STEP = 40503  # stride in the table of priorities between the windows of two images


class Rule(NamedTuple):
    """Assignment rule.

    Below the first overlap with all boxes a candidate is background, from the second one on foreground. `every_box`:
    the best candidates of each box are foreground, whatever their overlap. `share`: the largest foreground share of a
    sample.
    """

    overlaps: tuple[float, float]
    share: float
    every_box: bool


ANCHORS = Rule((0.3, 0.7), 0.5, every_box=True)  # Ren et al., Faster R-CNN, 2015, sections 3.1.2 and 3.1.3
REGIONS = Rule((0.5, 0.5), 0.25, every_box=False)  # Girshick, Fast R-CNN, 2015, section 2.3


class Truth(NamedTuple):
    """True boxes float32[N, G, 4] of each image, their classes int64[N, G], and a mask of used rows, bool[N, G]."""

    boxes: Tensor
    classes: Tensor
    there: Tensor


class Match(NamedTuple):
    """Assignment of each candidate [N, P]: foreground, background, or neither; and the nearest box."""

    foreground: Tensor
    background: Tensor
    nearest: Tensor


class Sample(NamedTuple):
    """Sampled candidates: indices int64[N, K], masks of foreground and of valid ones.

    Also their targets: boxes float32[N, K, 4] and classes int64[N, K].
    """

    indices: Tensor
    foreground: Tensor
    there: Tensor
    boxes: Tensor
    classes: Tensor


def truth(targets: Tensor) -> Truth:
    """The true boxes in rows [ymin, xmin, ymax, xmax, class], float32[N, G, 5], in pixels.

    Unused rows have a class below 0.
    """
    boxes, classes = targets[..., :4].float(), targets[..., 4].long()
    return Truth(boxes, classes.clamp(min=0), classes >= 0)


@torch.no_grad()
def sample(candidates: Tensor, there: Tensor, true: Truth, rule: Rule, count: int, draw: int) -> Sample:
    """At most `count` candidates, float32[N or 1, P, 4], of each image, sampled at random; foreground first.

    there: bool[N, P]. The same `draw`, an integer from 0, draws alike.
    """
    found = match(candidates, true, rule)
    priority = priorities(draw, len(there), there.shape[1], there.device)
    indices, foreground, kept = ranked(found.foreground & there, found.background & there, priority, count, rule.share)
    nearest = found.nearest.gather(1, indices)
    return Sample(indices, foreground, kept, rows(true.boxes, nearest), true.classes.gather(1, nearest))


def match(candidates: Tensor, true: Truth, rule: Rule) -> Match:
    """Assignment of candidates, float32[N or 1, P, 4], to the true boxes."""
    overlap = overlaps(true.boxes, candidates) * true.there.unsqueeze(-1)  # [N, G, P]
    best, nearest = overlap.max(1)
    foreground = best >= rule.overlaps[1]
    if rule.every_box:
        highest = overlap.amax(2, keepdim=True)
        raised, of = torch.where((overlap == highest) & (highest > 0), overlap, -1.0).max(1)
        foreground, nearest = foreground | (raised > 0), torch.where(raised > 0, of, nearest)
    return Match(foreground, (best < rule.overlaps[0]) & ~foreground, nearest)


def ranked(
    foreground: Tensor, background: Tensor, priority: Tensor, count: int, share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Indices int64[N, K] of the `count` candidates of highest priority; masks of foreground and of valid ones.

    Foreground is at most a share of `count`; valid are foreground and background, bool[N, P]. priority: integers from
    0, [N, P], all different in an image.
    """
    things = torch.where(foreground, priority, -1)
    last = things.topk(min(max(1, int(count * share)), things.shape[1])).values[:, -1:]
    rank = torch.where(background, priority, -1)
    rank = torch.where(foreground & (priority >= last), priority + CHOSEN, rank)
    best, indices = rank.topk(min(count, rank.shape[1]))
    return indices, best >= CHOSEN, best >= 0


def rows(values: Tensor, indices: Tensor) -> Tensor:
    """Rows of values [N, P, F] at indices [N, K]: [N, K, F]."""
    return values.gather(1, indices.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def priorities(draw: int, images: int, candidates: int, device: torch.device) -> Tensor:
    """int64[images, candidates], all different in an image: windows of a table drawn once.

    `draw`, an integer from 0, and the image's number determine where its window begins in the table, which is at least
    twice as long.
    """
    table = _table(1 << (2 * candidates).bit_length(), device)
    starts = draw % len(table) + FRAME_STEP * torch.arange(images, device=device)
    return table[(starts.unsqueeze(1) + torch.arange(candidates, device=device)) % len(table)]


@cache
def _table(size: int, device: torch.device) -> Tensor:
    """The integers below `size` in an order drawn by Philox; the same on every rank."""
    words = uniform64(0, stream(Purpose.SAMPLED_BOXES, 0, 1), np.arange(size))
    with torch.inference_mode(False):
        return torch.from_numpy(np.argsort(words)).to(device)
