"""Faster R-CNN with a feature pyramid, as a graph.

After Ren et al., Faster R-CNN, 2015, and Lin et al., Feature Pyramid Networks for Object Detection, 2017.

Convolutions of the pyramid and of the heads have a bias and no batch norm. The head of the proposals is one, shared by
all levels. What is counted for an image is always the same: all sizes of anchors, proposals and regions are fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Conv, Dense, Input, MaxPool, Pair, Relu, Upsample
from hpcai.networks.regions import Detections, Proposals, RoiAlign
from hpcai.networks.resnet import ARCHITECTURES, LARGE, Architecture, GraphBuilder, Stem, trunk

PARTS = ("backbone", "pyramid", "proposals", "boxes")


@dataclass(frozen=True, slots=True)
class DetectorSizes:
    """Fixed sizes of a detector: anchors, and number of boxes at each stage."""

    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)  # height / width of the anchors
    scale: float = 8.0  # an anchor's side in pixels of its level
    before: int = 1000  # proposals of a level before suppression
    after: int = 512  # proposals of all levels after suppression
    anchors: int = 256  # anchors of an image that are trained on
    regions: int = 256  # regions of an image for the box head
    side: int = 7  # bins of a region
    samples: int = 2  # sampling points a side of a bin
    cells: float = 28.0  # largest side of a region in pixels of its level; larger ones use a coarser level
    most: int = 100  # detections of an image


@dataclass(frozen=True, slots=True)
class Detector:
    """A backbone, the pyramid on its last `levels` stages and as many channels in it, and the width of its box head.

    `pooled`: a further level is made by pooling; proposals come from it, regions are not read from it.
    """

    backbone: Architecture
    stem: Stem = LARGE
    levels: int = 4
    pooled: bool = True
    channels: int = 256
    features: int = 1024
    sizes: DetectorSizes = DetectorSizes()


# The last one is for grids of about 96 x 144 points, on which a processor trains it at hundreds of frames a second.
DETECTORS = {
    "fasterrcnn18": Detector(ARCHITECTURES["resnet18"]),
    "fasterrcnn34": Detector(ARCHITECTURES["resnet34"]),
    "fasterrcnn50": Detector(ARCHITECTURES["resnet50"]),
    "fasterrcnn8": Detector(
        Architecture((1, 1, 1), (16, 32, 64)),
        stem=Stem(3, 2, pooled=True),
        levels=3,
        pooled=False,
        channels=32,
        features=128,
        sizes=DetectorSizes(scale=4.0, before=200, after=32, anchors=64, regions=16, side=5, cells=14.0),
    ),
}


def part(layer: str) -> str:
    """The part of the network, one of PARTS, of a layer by its name."""
    prefix = layer.split("_")[0]
    return prefix if prefix in PARTS else PARTS[0]


def faster_rcnn(detector: Detector, image: Pair, channels: int, classes: int, variant: str = "v1.5") -> Graph:
    """Graph for images (height, width) with things of `classes` classes, the background not among them."""
    builder = GraphBuilder(Layer("image", Input((channels, *image))))
    stages = trunk(builder, detector.backbone, detector.stem, variant)
    maps = _pyramid(builder, detector, stages[-detector.levels :])
    read = [*maps, builder.add("pyramid_pool", MaxPool((1, 1), (2, 2)), maps[-1])] if detector.pooled else maps
    scores, offsets = _proposals(builder, detector, read)
    _boxes(builder, detector, maps, classes)
    sizes = detector.sizes
    found = Detections(sizes.anchors, sizes.most)
    builder.add("boxes_found", found, "boxes_scores", "boxes_offsets", *scores, *offsets)
    return Graph(tuple(builder.layers))


def _pyramid(builder: GraphBuilder, detector: Detector, stages: Sequence[str]) -> list[str]:
    """Top-down, each level added to what the next coarser one shows; the maps, the finest first."""
    shapes, coarser = builder.shapes(), ""
    maps: list[str] = []
    for level, stage in reversed(list(enumerate(stages, start=1))):
        merged = builder.add(f"pyramid_lateral{level}", Conv(detector.channels, (1, 1), bias=True), stage)
        if coarser:
            _, height, width = shapes[stage]
            upsampled = builder.add(f"pyramid_upsample{level}", Upsample((height, width)), coarser)
            merged = builder.add(f"pyramid_add{level}", Add(), merged, upsampled)
        maps.insert(0, builder.add(f"pyramid_map{level}", _conv(detector.channels), merged))
        coarser = merged
    return maps


def _proposals(builder: GraphBuilder, detector: Detector, maps: Sequence[str]) -> tuple[list[str], list[str]]:
    """The head on every level with the weights of the first, and the proposals; its maps of scores and of offsets."""
    sizes, found = detector.sizes, ([], [])  # type: tuple[DetectorSizes, tuple[list[str], list[str]]]
    heads = {"score": len(sizes.ratios), "offset": 4 * len(sizes.ratios)}
    for level, source in enumerate(maps, start=1):
        shared = "" if level == 1 else "proposals_conv1"
        hidden = builder.add(f"proposals_conv{level}", _conv(detector.channels), source, shares=shared)
        hidden = builder.add(f"proposals_relu{level}", Relu(), hidden)
        for names, (kind, count) in zip(found, heads.items(), strict=True):
            shared = "" if level == 1 else f"proposals_{kind}1"
            head = Conv(count, (1, 1), bias=True)
            names.append(builder.add(f"proposals_{kind}{level}", head, hidden, shares=shared))
    op = Proposals(sizes.ratios, sizes.scale, sizes.before, sizes.after, sizes.regions)
    builder.add("proposals_regions", op, *found[0], *found[1])
    return found


def _boxes(builder: GraphBuilder, detector: Detector, maps: Sequence[str], classes: int) -> None:
    sizes = detector.sizes
    builder.add("boxes_align", RoiAlign(sizes.side, sizes.samples, sizes.cells), "proposals_regions", *maps)
    for number in (1, 2):
        builder.add(f"boxes_dense{number}", Dense(detector.features))
        builder.add(f"boxes_relu{number}", Relu())
    hidden = builder.last
    builder.add("boxes_scores", Dense(classes + 1), hidden)
    builder.add("boxes_offsets", Dense(4 * classes), hidden)


def _conv(channels: int) -> Conv:
    return Conv(channels, (3, 3), padding=(1, 1), bias=True)
