"""Records of trials for tests: valid ones, whose fields a test replaces."""

from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec.structs import replace

from hpcai.record.trial import CurveEntry, Hyperparameters, Trial

ENTRY = CurveEntry(
    epoch=1,
    seconds=2.5,
    loss=0.7,
    validation_loss=0.6,
    samples=64,
    skipped=0,
    correct=9,
    counted=16,
    fingerprint=2**62,
)
TRIAL = Trial(
    id=1,
    worker=0,
    round=1,
    parent=None,
    operation="initial",
    morphisms=(),
    hyperparameters=Hyperparameters(batch=32, kernel=3),
    given=0.0,
    started=0.5,
    returned=3.0,
    planned_epochs=15,
    steps=2,
    executed_operations=10**15,
    curve=(ENTRY,),
    training_seconds=1.5,
    validation_seconds=0.5,
    warmup_seconds=0.25,
    deviation=0.0,
    nbytes=2**40,
    planned_bytes=2**41,
    end="planned",
)


def entry(**values: Any) -> CurveEntry:
    """An entry of a curve with these values."""
    return replace(ENTRY, **values)


def trial(**values: Any) -> Trial:
    """A trial with these values."""
    return replace(TRIAL, **values)


def loaded(trials: Sequence[dict[str, Any]], data: dict[str, Any]) -> dict[str, Any]:
    """Loading of all samples, and of a batch that the end of time left unused."""
    unused = sum(trial["hyperparameters"]["batch"] for trial in trials if trial["end"] == "time")
    samples = unused + sum(entry["samples"] for trial in trials for entry in trial["curve"])
    return {
        "loaded_samples": samples,
        "loaded_bytes": samples * prod(data["shape"]),
        "load_seconds": 0.5,
        "wait_seconds": 0.02,
    }
