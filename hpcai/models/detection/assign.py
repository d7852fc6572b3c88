"""Which anchors and regions are trained on, and what each of them should say.

Nothing here waits for the device: what does not apply is masked out, and numbers that depend on the data are ranks
among fixed numbers.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpcai.data.philox import Purpose, stream, uniform64
from hpcai.models.detection.boxes import overlaps

CHOSEN = 1 << 31  # above every priority
FRAME_STEP = 40503  # places in the table of priorities from the window of one image to that of the next


class Rule(NamedTuple):
    """Below the first overlap with any box a candidate shows background, from the second one on a thing.

    `every_box`: the best candidates of a box show it, however little they overlap. `share` is the largest part of a
    sample that shows things.
    """

    overlaps: tuple[float, float]
    share: float
    every_box: bool


ANCHORS = Rule((0.3, 0.7), 0.5, every_box=True)  # Ren et al., Faster R-CNN, 2015, sections 3.1.2 and 3.1.3
REGIONS = Rule((0.5, 0.5), 0.25, every_box=False)  # Girshick, Fast R-CNN, 2015, section 2.3


class Truth(NamedTuple):
    """True boxes float32[N, G, 4] of each image, their classes int64[N, G], and which rows are there, bool[N, G]."""

    boxes: Tensor
    classes: Tensor
    there: Tensor


class Match(NamedTuple):
    """Of each candidate [N, P]: whether it shows a thing, or background, or neither clearly; and the nearest box."""

    thing: Tensor
    background: Tensor
    nearest: Tensor


class Sample(NamedTuple):
    """The candidates that are trained on: indices int64[N, K], which of them show a thing, and which are there at all;
    and what they should show: boxes float32[N, K, 4] and their classes int64[N, K].
    """

    indices: Tensor
    thing: Tensor
    there: Tensor
    boxes: Tensor
    classes: Tensor


def truth(targets: Tensor) -> Truth:
    """Of rows [ymin, xmin, ymax, xmax, class], float32[N, G, 5], in pixels; rows not used have a class below 0."""
    boxes, classes = targets[..., :4].float(), targets[..., 4].long()
    return Truth(boxes, classes.clamp(min=0), classes >= 0)


@torch.no_grad()
def sample(candidates: Tensor, there: Tensor, true: Truth, rule: Rule, count: int, draw: int) -> Sample:
    """At most `count` candidates, float32[N or 1, P, 4], of each image, drawn at random; those that show a thing first.

    there: bool[N, P]. The same `draw`, an integer from 0, draws alike.
    """
    found = match(candidates, true, rule)
    priority = priorities(draw, len(there), there.shape[1], there.device)
    indices, thing, kept = ranked(found.thing & there, found.background & there, priority, count, rule.share)
    nearest = found.nearest.gather(1, indices)
    return Sample(indices, thing, kept, rows(true.boxes, nearest), true.classes.gather(1, nearest))


def match(candidates: Tensor, true: Truth, rule: Rule) -> Match:
    """What candidates, float32[N or 1, P, 4], show of the true boxes."""
    overlap = overlaps(true.boxes, candidates) * true.there.unsqueeze(-1)  # [N, G, P]
    best, nearest = overlap.max(1)
    thing = best >= rule.overlaps[1]
    if rule.every_box:
        highest = overlap.amax(2, keepdim=True)
        raised, of = torch.where((overlap == highest) & (highest > 0), overlap, -1.0).max(1)
        thing, nearest = thing | (raised > 0), torch.where(raised > 0, of, nearest)
    return Match(thing, (best < rule.overlaps[0]) & ~thing, nearest)


def ranked(
    thing: Tensor, background: Tensor, priority: Tensor, count: int, share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Indices int64[N, K] of the `count` candidates of highest priority, K fewer if there are; which of them show a
    thing, at most a share of `count`; and which are there: of thing or background, bool[N, P].

    priority: integers from 0, [N, P], all different in an image.
    """
    things = torch.where(thing, priority, -1)
    last = things.topk(min(max(1, int(count * share)), things.shape[1])).values[:, -1:]
    rank = torch.where(background, priority, -1)
    rank = torch.where(thing & (priority >= last), priority + CHOSEN, rank)
    best, indices = rank.topk(min(count, rank.shape[1]))
    return indices, best >= CHOSEN, best >= 0


def rows(values: Tensor, indices: Tensor) -> Tensor:
    """Rows of values [N, P, F] at indices [N, K]: [N, K, F]."""
    return values.gather(1, indices.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def priorities(draw: int, images: int, candidates: int, device: torch.device) -> Tensor:
    """int64[images, candidates], all different in an image: windows of a table that is drawn once.

    `draw`, an integer from 0, and the image's number say where in the table, twice as long at least, a window begins.
    """
    table = _table(1 << (2 * candidates).bit_length(), device)
    starts = draw % len(table) + FRAME_STEP * torch.arange(images, device=device)
    return table[(starts.unsqueeze(1) + torch.arange(candidates, device=device)) % len(table)]


@cache
def _table(size: int, device: torch.device) -> Tensor:
    """The integers below `size` in an order drawn by Philox; the same everywhere."""
    words = uniform64(0, stream(Purpose.SAMPLED_BOXES, 0, 1), np.arange(size))
    with torch.inference_mode(False):
        return torch.from_numpy(np.argsort(words)).to(device)
