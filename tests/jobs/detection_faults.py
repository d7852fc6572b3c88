"""Faults in the training and evaluation of detectors, and in their differences."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from evaluation_faults import loaded, second_replaced_by_first, without_first
from planting import RANK, WRONG_RANK, Fault, replaced

from hpcai.data.weather import weather_loader
from hpcai.train import detector_ensemble, objective, state
from hpcai.train.detection_validation import DetectionValidation
from hpcai.train.objective import Detection
from hpcai.workloads.weather import measure

# --- the frames


def frames_left_out() -> Fault:
    return loaded(DetectionValidation, "run", without_first, weather_loader)


def frames_delivered_twice() -> Fault:
    return loaded(DetectionValidation, "run", second_replaced_by_first, weather_loader)


def _met(change: Callable[[np.ndarray, int], np.ndarray]) -> Fault:
    """One rank reports other frames for its first block."""

    def make(genuine: Callable[..., Iterator[Any]]) -> Any:
        def blocks(of: Any, shard: Any, *arguments: Any) -> Iterator[Any]:
            for block, (x, y, indices) in genuine(of, shard, *arguments):
                wrong = RANK == WRONG_RANK and block == 0
                yield block, (x, y, change(indices, shard.n) if wrong else indices)

        return blocks

    return replaced(detector_ensemble, "blocks", make)


def frames_beyond_the_last() -> Fault:
    return _met(lambda indices, frames: indices + frames)


def frame_found_twice() -> Fault:
    return _met(lambda indices, frames: np.append(indices[1:], indices[1]))


def frames_delivered_twice_to_the_ensemble() -> Fault:
    return loaded(detector_ensemble, "evaluate", second_replaced_by_first, weather_loader)


def frames_met_twice() -> Fault:
    """The detections of a block are counted twice."""

    def make(genuine: Callable[..., None]) -> Any:
        def meet(group: Any, block: int, *arguments: Any) -> None:
            for _ in range(2 if block == 0 else 1):
                genuine(group, block, *arguments)

        return meet

    return replaced(detector_ensemble, "_collect", make)


# --- the training


def proposals_frozen() -> Fault:
    """The proposal network keeps its initial weights."""

    def make(genuine: Callable[..., Any]) -> Any:
        def build(rule: Any, module: Any, rate: float) -> Any:
            for name, parameter in module.named_parameters():
                parameter.requires_grad_(not name.startswith("proposals_"))
            return genuine(rule, module, rate)

        return build

    return replaced(state, "build_optimiser", make)


# --- the ensemble


class SameDetector:
    """Both models use the draws of the first: weights, frames, augmentation, anchors and regions."""

    def __enter__(self) -> None:
        seeds, samplers, augmentation_of = measure.seed_of, measure.sampler, weather_loader.Loader.augmentation
        self.patches = [
            patch.object(measure, "seed_of", lambda seed, purpose, member: seeds(seed, purpose, 0)),
            patch.object(measure, "sampler", lambda kind, n, seed, member, models: samplers(kind, n, seed, 0, models)),
            patch.object(objective, "Detection", lambda seed, model: Detection(seed, 0)),
            patch.object(
                weather_loader.Loader,
                "augmentation",
                lambda self, seed, member, *rest: augmentation_of(self, seed, 0, *rest),
            ),
        ]
        for each in self.patches:
            each.start()

    def __exit__(self, *_: object) -> None:
        for each in self.patches:
            each.stop()


def detectors_identical() -> Fault:
    return SameDetector()
