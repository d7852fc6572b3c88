"""Evaluation of the ensemble of detectors: weighted box fusion of P models' detections (HPC AI500 V3, bagging).

The P ranks that hold the same frames send their detections to one of them, a different one for each block, some frames
at a time. So no rank holds more than MAX_BYTES of detections, or one frame of all models.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.data.bootstrap import Sampler
from hpcai.data.order import ValidationShard
from hpcai.data.philox import Integers
from hpcai.data.weather.weather_loader import Loader
from hpcai.detections import CLASS, LOOSE, OVERLAP, Detections, detection_tables
from hpcai.detections.agreement import agreement, pairs
from hpcai.detections.weighted_box_fusion import fused
from hpcai.formulas.sample_fingerprint import expected_fingerprint, fingerprint
from hpcai.frozen.samples import TRAINING
from hpcai.train.classifier_ensemble import blocks, in_bag
from hpcai.train.detection_quality import Quality, quality
from hpcai.train.detection_validation import DetectionValidation

MAX_BYTES = 2**26  # bytes of detections that a rank receives at a time
NO_MODEL = -1.0  # class in the rows of a model that is left out


@dataclass
class Fused:
    """Fused detections of the frames that this rank evaluated: their indices, detections and true boxes."""

    indices: list[int] = field(default_factory=list)
    detections: list[Detections] = field(default_factory=list)
    boxes: list[NDArray[Any]] = field(default_factory=list)
    agreed: float = 0.0  # agreement summed over frames and pairs of neighbouring models
    mixed: int = 0  # frames where the models' ranks delivered different ones

    @property
    def frames(self) -> Integers:
        """The indices as an array."""
        return np.array(self.indices, np.int64)


@dataclass(frozen=True)
class FusedQuality:
    """Ensemble quality over all active ranks, the same on each; average precision by class, None without true boxes."""

    precision: tuple[float | None, ...]
    loose_precision: tuple[float | None, ...]  # at the smaller overlap
    true_boxes: tuple[int, ...]  # of each class
    agreement: float  # agreement summed over frames and pairs of neighbouring models
    # frames evaluated too often or not at all; 1 more for each set whose fingerprint differs
    validation_miscounted: int
    bag_evaluated: int  # training frames that at least one model did not train on
    bag_precision: tuple[float | None, ...]


@torch.inference_mode()
def evaluate(
    module: nn.Module,
    group: Group,
    validation: DetectionValidation,
    training: Loader,
    sampler: Sampler,
    shutdown: Shutdown,
) -> tuple[FusedQuality, Fused]:
    """Evaluate the ensemble on the validation frames and, out of bag, on the training frames that `sampler` draws from.

    Returns the quality over all active ranks, the same on each, and this rank's fused detections of validation frames.
    If `shutdown` is requested, the rest is left out and the numbers are meaningless. Collective over all active ranks.
    """
    module.eval()
    whole, prints, counted = Fused(), 0, 0
    validation.content.begin("evaluation of all models together")
    for block, (x, y, indices) in blocks(validation.loader, validation.shard, group, shutdown):
        validation.content.note(x, y)
        _collect(group, block, module(x).float().cpu().numpy(), y.cpu().numpy(), indices, whole)
        prints, counted = prints + fingerprint(indices), counted + len(indices)
    validation.content.close()
    bag = _out_of_bag(module, group, training, sampler, validation, shutdown)
    module.train()
    strict, loose = (_quality(whole, validation, group, overlap) for overlap in (OVERLAP, LOOSE))
    out_of_bag = _quality(bag, validation, group, OVERLAP)
    mixed = group.active.allreduce(whole.mixed + bag.mixed)
    found = FusedQuality(
        precision=strict.classes,
        loose_precision=loose.classes,
        true_boxes=strict.truths,
        agreement=group.active.allreduce(whole.agreed),
        validation_miscounted=_miscounted(validation.shard.n, prints, counted, whole, group) + mixed,
        bag_evaluated=group.active.allreduce(len(bag.indices)),
        bag_precision=out_of_bag.classes,
    )
    return found, whole


def _out_of_bag(
    module: nn.Module,
    group: Group,
    training: Loader,
    sampler: Sampler,
    validation: DetectionValidation,
    shutdown: Shutdown,
) -> Fused:
    """Fused detections in frames by the models that did not train on them; nothing with one model."""
    bag = Fused()
    if group.groups > 1:
        batch, content = validation.shard.batch, validation.content
        shard = ValidationShard(sampler.samples, group.place.replica, group.divided.replicas, batch)
        content.begin("out of bag", TRAINING)
        for block, (x, y, indices) in blocks(training, shard, group, shutdown):
            content.note(x, y)
            outputs = module(x).float().cpu().numpy()
            outputs[in_bag(sampler, indices), :, CLASS] = NO_MODEL - 1
            _collect(group, block, outputs, y.cpu().numpy(), indices, bag)
        content.close()
    return bag


def _collect(
    group: Group, block: int, outputs: NDArray[np.float32], boxes: NDArray[Any], indices: Integers, into: Fused
) -> None:
    """Fuse a block of frames on the rank that evaluates it; the other ranks send it their detections."""
    at_once = max(1, MAX_BYTES // (group.groups * max(1, outputs[:1].nbytes)))
    for begin in range(0, len(outputs), at_once):
        part = slice(begin, begin + at_once)
        own = outputs[part]
        root = block % group.groups
        every = _gathered(group, own, root)
        frames = _gathered(group, indices[part], root)
        if every is not None and frames is not None:
            into.mixed += int(np.count_nonzero((frames != frames[0]).any(axis=0)))
            for frame in range(len(own)):
                _fuse_frame(every[:, frame], boxes[begin + frame], int(indices[begin + frame]), into)


def _gathered(group: Group, own: NDArray[Any], root: int) -> NDArray[Any] | None:
    """The contributions of the models' ranks, in the order of the models, on rank `root`; None on the others."""
    every = np.empty((group.groups, *own.shape), own.dtype) if group.across.rank == root else None
    group.across.Gather(np.ascontiguousarray(own), every, root)
    return every


def _fuse_frame(outputs: NDArray[np.float32], boxes: NDArray[Any], index: int, into: Fused) -> None:
    """Fuse one frame of all models; skipped if every model is left out."""
    asked = outputs[outputs[:, 0, CLASS] >= NO_MODEL]
    if len(asked) == 0:
        return
    models = detection_tables.used(asked)
    into.indices.append(index)
    into.detections.append(fused(models) if len(outputs) > 1 else models[0])
    into.boxes.append(boxes.copy())  # the loader may reuse its memory
    into.agreed += sum(agreement(a, b) for a, b in neighbours(models)) if len(asked) == len(outputs) else 0.0


def neighbours(models: list[Detections]) -> Iterator[tuple[Detections, Detections]]:
    """Pairs of neighbouring models: each with the next, the last with the first; for two models their one pair."""
    for place in range(pairs(len(models))):
        yield models[place], models[(place + 1) % len(models)]


def _quality(of: Fused, validation: DetectionValidation, group: Group, overlap: float) -> Quality:
    return quality(validation.matches(of.frames, of.detections, of.boxes, overlap), group.active)


def _miscounted(frames: int, prints: int, counted: int, whole: Fused, group: Group) -> int:
    """Frames evaluated too often or not at all, by the models and by the ensemble; 1 more for each wrong fingerprint.

    Of every model's ranks, and of the ensemble.
    """
    own = np.array([counted, prints % (1 << 63), len(whole.indices), fingerprint(whole.frames)], np.uint64)
    group.active.Allreduce(own.copy(), own)
    delivered, prints, met, met_prints = map(int, own)
    expected = expected_fingerprint(frames)
    others = prints % (1 << 63) != group.groups * expected % (1 << 63)
    return abs(delivered - group.groups * frames) + abs(met - frames) + others + (met_prints % (1 << 63) != expected)
