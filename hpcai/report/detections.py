"""The detections beside a result: what the ensemble found, held against the result, and judged again."""

from collections.abc import Iterator
from functools import lru_cache
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from hpcai.data import catalog
from hpcai.data.places import GENERATED
from hpcai.data.weather.rectangles import targets
from hpcai.detections import stored
from hpcai.detections.precision import average_precision, matched
from hpcai.inputfile import Case

Json = dict[str, Any]

UNREADABLE = (OSError, RuntimeError, LookupError, ValueError)  # as h5py says it of a file that is none, or is damaged
NEAR = 0.005  # should a storm that is a cyclone by a hair be a depression on another machine


def differences(folder: Path, case: Case, test: Json) -> Iterator[str]:
    """What the file of a weather test, if it is there, says otherwise than the test."""
    path = folder / stored.name(case.index)
    if not path.exists():
        return
    try:
        table = stored.read(path)
    except UNREADABLE as error:
        yield f"{path.name} cannot be read: {error}"
        return
    raw = test["raw"]
    if len(table) != raw["dataset"]["validation_samples"] or stored.digest(table) != raw["detections_sha256"]:
        yield f"{path.name}: not the detections of the result file"
    elif case["DATASET"] == GENERATED:
        yield from _judged(path, case, raw, table)


def _judged(path: Path, case: Case, raw: Json, table: stored.Table) -> Iterator[str]:
    """The precision that the detections have with the true boxes, which follow from the formula."""
    names = tuple((name, case.data_settings[name]) for name in ("DATASET", *catalog.ASKED))
    boxes, frames = _boxes(names), range(len(table))
    for overlap, classes in raw["average_precision"].items():
        judged = matched(frames, stored.used(table), boxes, float(overlap), len(classes))
        made = [None if np.isnan(value) else float(value) for value in average_precision(judged)]
        if judged.truths.tolist() != raw["true_boxes"] or not all(map(_near, made, classes)):
            yield f"{path.name}: a precision of {made} at {overlap}, not of {classes}"


def _near(one: float | None, other: float | None) -> bool:
    return one == other or one is not None and other is not None and isclose(one, other, abs_tol=NEAR)


@lru_cache(maxsize=4)
def _boxes(settings: tuple[tuple[str, Any], ...]) -> Any:
    data = catalog.open_weather_for(dict(settings))
    return targets(data.validation.boxes(np.arange(len(data.validation))), data.classes)
