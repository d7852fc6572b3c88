"""Faster R-CNN as a torch module, built from its graph."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hpcai.models.detection.anchors import Levels, Pair
from hpcai.models.detection.assign import ANCHORS, REGIONS, Sample, Truth, rows, sample, truth
from hpcai.models.detection.losses import anchor_losses, region_losses
from hpcai.models.detection.proposals import Level, detections, proposals
from hpcai.models.detection.regions import roi_align
from hpcai.models.module import Layers, initialise
from hpcai.networks.graph import Graph
from hpcai.networks.regions import Detections, Proposals, RoiAlign

# Standard deviation of the initial weights of score and offset layers (Girshick, Fast R-CNN, 2015, section 2.3).
# Proposal
# layers start at 0: random weights favour salient regions, which would hide a training fault of the proposals.
SPREADS = {"boxes_scores": 0.01, "boxes_offsets": 0.001, "proposals_score": 0.0, "proposals_offset": 0.0}


class Detector(Layers):
    """Detects boxes in images float[N, C, H, W] of the size of its graph.

    In training mode its output are the four losses, float32[4], of hpcai.models.detection.losses; in evaluation mode
    the boxes, float32[N, most, 6], of hpcai.models.detection.proposals.

    Batch norm is trained with the statistics of the rank's own batch, as in the networks that tell classes; running
    ones are averaged over a group before a validation (hpcai.train.data_parallel). Boxes, regions and losses are
    computed in fp32, whatever the layers are computed in. Every parameter takes part in every call, boxes or none.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        ops: dict[type, Any] = {type(layer.op): layer.op for layer in graph.layers}
        self._proposals, self._align, self._detections = (ops[kind] for kind in (Proposals, RoiAlign, Detections))
        steps = {type(layer.op): place for place, layer in enumerate(graph.layers[1:])}
        self._said, self._read, self._found = (steps[kind] for kind in (Proposals, RoiAlign, Detections))
        self._image, sizes = _sizes(graph)
        self._levels = Levels(self._image, sizes, self._proposals.ratios, self._proposals.scale)

    def forward(self, images: Tensor, targets: Tensor | None = None, draw: int = 0) -> Tensor:
        """Losses in training mode, detections in evaluation mode.

        targets: rows [ymin, xmin, ymax, xmax, class], float32[N, G, 5], in pixels, class -1 in unused rows; `draw`: an
        integer from 0 that selects the sampled anchors and regions. Both for training mode only.
        """
        values = self._values(images)
        self._execute(self.steps[: self._said], values)
        levels = self._proposal_outputs(values)
        regions, there = proposals(levels, self._image, self._proposals.before, self._proposals.after)
        if not self.training:
            regions, there = regions[:, : self._proposals.regions], there[:, : self._proposals.regions]
            scores, offsets = self._box_outputs(regions, values)
            return detections(scores, offsets, regions, there, self._image, self._detections.most)
        if targets is None:
            raise TypeError("a detector is trained with the boxes of its images")
        true = truth(targets)
        regions, chosen = _sampled_regions(regions, there, true, self._proposals.regions, draw)
        scores, offsets = self._box_outputs(regions, values)
        of_regions = region_losses(scores, offsets, regions, chosen)
        return torch.stack([*_anchor_losses(levels, true, self._detections.anchors, draw), *of_regions])

    def _proposal_outputs(self, values: list[Any]) -> list[Level]:
        """Scores and offsets of the proposal head by level, a row for each anchor."""
        maps = [values[place].float().permute(0, 2, 3, 1) for place in self.steps[self._said][2]]
        half = len(maps) // 2
        return [
            Level(anchors, scores.flatten(1), offsets.reshape(len(offsets), -1, 4))
            for anchors, scores, offsets in zip(
                self._levels.anchors(maps[0].device), maps[:half], maps[half:], strict=True
            )
        ]

    def _box_outputs(self, regions: Tensor, values: list[Any]) -> tuple[Tensor, Tensor]:
        """Scores and offsets of the box head for regions float32[N, R, 4], in fp32."""
        _, _, (_, *sources), target, frees = self.steps[self._read]
        maps = [values[place] for place in sources]
        for dead in frees:
            values[dead] = None
        level = self._levels.of_regions(regions, self._align.cells, len(maps))
        scales = [1 / stride for stride in self._levels.strides[: len(maps)]]
        aligned = roi_align(maps, regions, level, scales, self._align.side, self._align.samples)
        values[target] = aligned.permute(0, 2, 3, 1).flatten(1)
        self._execute(self.steps[self._read + 1 : self._found], values)
        said = (values[place].float() for place in self.steps[self._found][2][:2])
        scores, offsets = (table.unflatten(0, regions.shape[:2]) for table in said)
        return scores, offsets.unflatten(2, (-1, 4))


def _sizes(graph: Graph) -> tuple[Pair, list[Pair]]:
    """Sizes of the image, and of the maps of the proposals."""
    _, height, width = graph.shapes[graph.layers[0].name]
    inputs = next(layer.inputs for layer in graph.layers if isinstance(layer.op, Proposals))
    shapes = [graph.shapes[name] for name in inputs[: len(inputs) // 2]]
    return (height, width), [(rows, columns) for _, rows, columns in shapes]


@torch.no_grad()
def _sampled_regions(boxes: Tensor, there: Tensor, true: Truth, count: int, draw: int) -> tuple[Tensor, Sample]:
    """Regions float32[N, R, 4] sampled among proposals and true boxes, and their targets."""
    candidates, real = torch.cat([boxes, true.boxes], 1), torch.cat([there, true.there], 1)
    chosen = sample(candidates, real, true, REGIONS, count, draw)
    return rows(candidates, chosen.indices), chosen


def _anchor_losses(levels: Sequence[Level], true: Truth, count: int, draw: int) -> tuple[Tensor, Tensor]:
    anchors, scores, offsets = (
        torch.cat(parts, axis) for parts, axis in zip(zip(*levels, strict=True), (0, 1, 1), strict=True)
    )
    everywhere = torch.ones_like(scores, dtype=torch.bool)
    chosen = sample(anchors.unsqueeze(0), everywhere, true, ANCHORS, count, draw)
    return anchor_losses(scores, offsets, anchors, chosen)


def build(graph: Graph, seed: int) -> Detector:
    """Module of the graph on the CPU, its parameters drawn from `seed` alone: the same on every rank.

    As hpcai.models.module.build draws them; weights of what says scores and offsets are near 0, those of proposals 0.
    """
    detector = Detector(graph).to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    for name, module in detector.named_children():
        initialise(module, generator)
        for word, spread in SPREADS.items():
            if name.startswith(word):
                nn.init.normal_(module.weight, std=spread, generator=generator)  # type: ignore[arg-type]
    return detector
