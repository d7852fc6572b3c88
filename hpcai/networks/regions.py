"""Kinds of layers that only detectors have: proposals, region features, detections."""

from dataclasses import dataclass
from typing import ClassVar

from hpcai.networks.layers import Op, Shape, as_map, at_least


@dataclass(frozen=True, slots=True)
class Proposals(Op):
    """Region proposals (Ren et al., Faster R-CNN, 2015, section 3): rows ymin, xmin, ymax, xmax.

    Reads a map of each level that says how likely its anchors are, then one of each level that says how to move them.
    A pixel has an anchor of each of `ratios` (height / width), whose area is the square of `scale` pixels' sides. The
    best `before` of each level and of these the best `after` that do not overlap are candidates, of which `regions` are
    passed on.
    """

    kind: ClassVar[str] = "proposals"
    arity: ClassVar[int] = 2
    more: ClassVar[bool] = True
    differentiable: ClassVar[bool] = False
    ratios: tuple[float, ...]
    scale: float
    before: int
    after: int
    regions: int

    def shape(self, *sources: Shape) -> Shape:
        at_least(1, sizes=(len(self.ratios), self.before, self.after, self.regions))
        if self.regions > self.after:
            raise ValueError(f"{self.regions} regions cannot be taken from {self.after} proposals")
        half = len(sources) // 2
        for scores, offsets in zip(sources[:half], sources[half:], strict=True):
            if (scores[0], offsets) != (len(self.ratios), (4 * len(self.ratios), *as_map(scores)[1:])):
                raise ValueError(f"maps {scores} and {offsets} do not fit {len(self.ratios)} anchors a pixel")
        return (self.regions, 4)


@dataclass(frozen=True, slots=True)
class RoiAlign(Op):
    """Region features by RoIAlign (He et al., Mask R-CNN, 2017, section 3): rows of side x side x channels numbers.

    Reads the regions, then the maps, the finest first. A region is read from the first map of which it covers less than
    `cells` pixels a side (Lin et al., Feature Pyramid Networks, 2017, eq. 1: 28); each of its bins is the mean of
    `samples` x `samples` points.
    """

    kind: ClassVar[str] = "roi align"
    arity: ClassVar[int] = 2
    more: ClassVar[bool] = True
    side: int
    samples: int
    cells: float

    def shape(self, *sources: Shape) -> Shape:
        regions, *maps = sources
        at_least(1, sizes=(self.side, self.samples))
        if len({as_map(source)[0] for source in maps}) > 1:
            raise ValueError("maps of different channels: " + ", ".join(map(str, maps)))
        return (regions[0], maps[0][0] * self.side**2)


@dataclass(frozen=True, slots=True)
class Detections(Op):
    """The boxes of an image, at most `most`, rows ymin, xmin, ymax, xmax, score, class; with the losses of a detector.

    Reads the scores of the regions, the offsets of each class, and what the proposals read. The losses of these are
    taken at `anchors` of all anchors.
    """

    kind: ClassVar[str] = "detections"
    arity: ClassVar[int] = 4
    more: ClassVar[bool] = True
    anchors: int
    most: int

    def shape(self, *sources: Shape) -> Shape:
        at_least(1, sizes=(self.anchors, self.most))
        scores, offsets = sources[:2]
        if offsets != (scores[0], 4 * (scores[1] - 1)):
            raise ValueError(f"scores {scores} and offsets {offsets} do not fit together")
        return (self.most, 6)


KINDS: tuple[type[Op], ...] = (Proposals, RoiAlign, Detections)
