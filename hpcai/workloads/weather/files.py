"""Verification of the detections file beside a result: compared with the result, and evaluated again."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai import hdf5_tables
from hpcai.data import catalog
from hpcai.data.dataset_paths import GENERATED
from hpcai.data.weather.box_cleaning import targets
from hpcai.data.weather.layout import CLASSES
from hpcai.detections import CLASS, LOOSE, OVERLAP, SCORE
from hpcai.detections import detection_tables as detections_file
from hpcai.detections.coco_evaluation import average_precision, matched
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset
from hpcai.record.result import BrokenOff
from hpcai.workloads.weather.record import WeatherRaw, WeatherRow

ROUNDING = 1e-9  # relative difference of a mean by rounding on another machine
OUTSIDE = 1e-3  # pixels by which rounding may move a mean box over the edge
HAIR = 1000  # in this many frames one storm may be a cyclone here and a depression on another machine, by rounding


TEXTS: tuple[str, ...] = ()  # a test leaves no text file


def texts(tests: Sequence[WeatherRow]) -> dict[str, str]:
    """Text files beside the result: none."""
    return {}


def names(test: WeatherRow) -> list[str]:
    """The detections file of a test."""
    return [detections_file.name(test.index)]


def digests(test: WeatherRow | BrokenOff) -> dict[str, str]:
    """SHA-256 by path that the result has: none, that of detections is of the tables in the file."""
    return {}


def stopped_differences(folder: Path, test: BrokenOff) -> Iterator[str]:
    """Differences of files of a test in which the run was broken off: there are none."""
    return iter(())


def differences(folder: Path, case: Case, test: WeatherRow) -> Iterator[str]:
    """Differences of a test's detections file, if there is one, from the test."""
    path, raw = folder / detections_file.name(case.index), test.raw
    if not path.exists():
        return
    if not path.is_file():
        yield f"{path.name} is no file"
        return
    try:
        found, about = detections_file.read(path, raw.dataset.validation_samples)
    except hdf5_tables.UNREADABLE as error:
        yield f"{path.name} cannot be read: {error}"
        return
    if detections_file.digest(found) != raw.ensemble.sha256:
        yield f"{path.name}: not the detections of the result file"
        return
    wrong = [*_malformed(found, raw.dataset)] if test.verdict == "PASSED" else []
    reasons = wrong or [*_evaluated(found, raw), *_true_boxes(case, found, about)]
    yield from (f"{path.name}: {reason}" for reason in reasons)


def _malformed(found: detections_file.DetectionTables, dataset: Dataset) -> Iterator[str]:
    """Rows that no detector of such a dataset produces."""
    height, width = dataset.shape[1:]
    for frame, (rows, own) in enumerate(zip(found.detections, detections_file.used(found.detections), strict=True)):
        unused = rows[len(own) :]
        least, most = own[:, :4].min(initial=0), own[:, 2:4].max(axis=0, initial=0)
        empty = detections_file.empty(1).detections[0, : len(unused)]
        if (rows[: len(own), CLASS] < 0).any() or (unused != empty).any():
            yield f"frame {frame}: rows that are used are not the first ones"
        elif not _whole(own[:, CLASS], dataset.classes):
            yield f"frame {frame}: a class that there is not"
        elif not (np.isfinite(own).all() and _decreasing(own[:, SCORE])):
            yield f"frame {frame}: scores that do not fall from 1 to 0"
        elif least < -OUTSIDE or (most > np.array([height, width]) + OUTSIDE).any():
            yield f"frame {frame}: a box outside of the field"


def _whole(numbers: NDArray[np.float32], classes: int) -> bool:
    return bool(((numbers < classes) & (np.floor(numbers) == numbers)).all())


def _decreasing(scores: NDArray[np.float32]) -> bool:
    """Whether scores decrease; averaged scores may round differently."""
    return bool((np.diff(scores) <= 0).all() and ((scores >= 0) & (scores <= 1 + ROUNDING)).all())


def _evaluated(found: detections_file.DetectionTables, raw: WeatherRaw) -> Iterator[str]:
    """Average precision of the detections with their true boxes."""
    frames, rows, together = range(len(found.detections)), detections_file.used(found.detections), raw.ensemble
    for overlap, classes in ((OVERLAP, together.precision), (LOOSE, together.loose_precision)):
        matches = matched(frames, rows, found.boxes, overlap, len(classes))
        made = [None if np.isnan(value) else float(value) for value in average_precision(matches)]
        if tuple(matches.truths.tolist()) != together.true_boxes:
            yield f"{matches.truths.tolist()} true boxes, not {list(together.true_boxes)}"
        elif not all(map(_same, made, classes)):
            yield f"a precision of {made} at {overlap}, not of {list(classes)}"


def _same(one: float | None, other: float | None) -> bool:
    return one == other or one is not None and other is not None and isclose(one, other, abs_tol=ROUNDING)


def _true_boxes(case: Case, found: detections_file.DetectionTables, about: detections_file.Metadata) -> Iterator[str]:
    """Whether the true boxes of generated frames follow from the formula, and metadata match."""
    if case.dataset != GENERATED:
        if about.classes != tuple(range(len(CLASSES))) or about.moments is not None:
            yield "other classes than the published ones, or moments of frames that were not generated"
        return
    boxes, expected = _known(tuple((name, case.data_settings[name]) for name in ("DATASET", *catalog.ASKED)))
    apart = np.count_nonzero((found.boxes != boxes).any(axis=(1, 2)))
    if apart > 1 + len(boxes) // HAIR:
        yield f"true boxes of {apart} frames that are not those of the formula"
    if about.moments is None or (about.moments != expected.moments).any() or about.classes != expected.classes:
        yield "other moments or classes than those of the formula"


@lru_cache(maxsize=4)
def _known(settings: tuple[tuple[str, Any], ...]) -> tuple[NDArray[Any], detections_file.Metadata]:
    data = catalog.open_weather_for(dict(settings))
    validation: Any = data.validation
    boxes = validation.boxes(np.arange(len(validation)))
    return targets(boxes, data.classes).astype(np.int32), detections_file.Metadata(data.classes, validation.moments)
