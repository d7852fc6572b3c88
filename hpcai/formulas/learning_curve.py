"""The accuracy that a trial would have reached, had it trained longer: what a search ranks by while trials are short.

Source: AIPerf (Ren et al., 2020, arXiv:2008.07141), section 4.4, whose curve, pseudo-point and margin are these.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.formulas.trial_schedule import warms_up

WHOLE = ("planned", "patience")  # ends of trials whose networks can be parents
FAILED = ("diverged", "memory", "lost")  # ends of trials that are worth nothing
LEAST_EPOCHS = 3
PSEUDO_POINT = 2.0, 0.75  # in maximum epochs, and the accuracy that is assumed there
AT = 1.5  # maximum epochs
MARGIN = 2.0  # root mean square errors
SHIFTS = np.concatenate([np.linspace(-0.99, 1, 200), np.geomspace(1.01, 1e4, 400)])  # b
Floats = NDArray[np.float64]


def accuracy(trial: Mapping[str, Any]) -> float:
    """The best that a trial, as raw data have it, reached in validation; 0 if it was never validated."""
    return max(_accuracies(trial), default=0.0)


def value(trial: Mapping[str, Any], most_epochs: int) -> float:
    """What a search ranks a trial by: predicted from its accuracies in rounds 1 to 4, then the best; 0 if it failed."""
    if trial["end"] in FAILED:
        return 0.0
    if warms_up(trial["round"]):
        return predicted(_accuracies(trial), most_epochs)
    return accuracy(trial)


def _accuracies(trial: Mapping[str, Any]) -> list[float]:
    """After each epoch; the last may have been cut before its validation."""
    return [entry["correct"] / entry["counted"] for entry in trial["curve"] if entry["counted"]]


def predicted(accuracies: Sequence[float], most_epochs: int) -> float:
    """Accuracy at 1.5 times the maximum epochs by a log2(epoch + b) + c, minus twice the error of the fit.

    `accuracies` are the validations after epoch 1, 2, ...; with fewer than 3, or where the curve ends above 1 or below
    the best of them, the best of them; 0 without any. A pure function: the same on every rank that gives the same.
    """
    best = max(accuracies, default=0.0)
    if len(accuracies) < LEAST_EPOCHS:
        return best
    epochs = np.append(np.arange(1.0, len(accuracies) + 1), PSEUDO_POINT[0] * most_epochs)
    value = _at(AT * most_epochs, epochs, np.append(accuracies, PSEUDO_POINT[1]))
    return value if best <= value <= 1 else best


def _at(epoch: float, epochs: Floats, values: Floats) -> float:
    """Where the curve that fits best is at an epoch, minus the margin; for each b the other two are a linear fit."""
    logs = np.log2(epochs + SHIFTS[:, None])
    centred = logs - logs.mean(axis=1, keepdims=True)
    slopes = centred @ (values - values.mean()) / (centred**2).sum(axis=1)
    fitted = values.mean() + slopes[:, None] * centred
    errors = ((fitted - values) ** 2).mean(axis=1)
    place = int(errors.argmin())
    level = values.mean() + slopes[place] * (np.log2(epoch + SHIFTS[place]) - logs[place].mean())
    return float(level - MARGIN * np.sqrt(errors[place]))
