"""Extrapolated learning curve: predicted accuracy of a trial if trained longer, by which a search ranks trials.

Source: AIPerf (Ren et al., 2020, arXiv:2008.07141), section 4.4: the curve, the pseudo-point and the margin.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpcai.formulas.trial_schedule import warms_up
from hpcai.record.trial import FAILED, Trial

LEAST_EPOCHS = 3
PSEUDO_POINT = 2.0, 0.75  # pseudo-point: epoch in units of the maximum, and its assumed accuracy
AT = 1.5  # maximum epochs
MARGIN = 2.0  # in root mean square errors
SHIFTS = np.concatenate([np.linspace(-0.99, 1, 200), np.geomspace(1.01, 1e4, 400)])  # b
Floats = NDArray[np.float64]


def value(trial: Trial, most_epochs: int) -> float:
    """The value by which a search ranks a trial: predicted accuracy in rounds 1 to 4, then the best accuracy.

    0 if it failed.
    """
    if trial.end in FAILED:
        return 0.0
    return predicted(trial.accuracies, most_epochs) if warms_up(trial.round) else trial.accuracy


def predicted(accuracies: Sequence[float], most_epochs: int) -> float:
    """Accuracy at 1.5 times the maximum epochs by a log2(epoch + b) + c, minus twice the error of the fit.

    `accuracies` are those of the validations after epoch 1, 2, ...; with fewer than 3, or where the prediction is above
    1 or below the best of them, the best of them; 0 without any. The same on every rank that passes the same.
    """
    best = max(accuracies, default=0.0)
    if len(accuracies) < LEAST_EPOCHS:
        return best
    epochs = np.append(np.arange(1.0, len(accuracies) + 1), PSEUDO_POINT[0] * most_epochs)
    value = _at(AT * most_epochs, epochs, np.append(accuracies, PSEUDO_POINT[1]))
    return value if best <= value <= 1 else best


def _at(epoch: float, epochs: Floats, values: Floats) -> float:
    """Value of the best fit at an epoch, minus the margin; a and c are a linear fit for each b of a grid."""
    logs = np.log2(epochs + SHIFTS[:, None])
    centred = logs - logs.mean(axis=1, keepdims=True)
    slopes = centred @ (values - values.mean()) / (centred**2).sum(axis=1)
    fitted = values.mean() + slopes[:, None] * centred
    errors = ((fitted - values) ** 2).mean(axis=1)
    place = int(errors.argmin())
    level = values.mean() + slopes[place] * (np.log2(epoch + SHIFTS[place]) - logs[place].mean())
    return float(level - MARGIN * np.sqrt(errors[place]))
