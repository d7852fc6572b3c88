"""Time of one rank in one test, from what a step of its network takes here and how often it is due."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

WARMUP_STEPS = 4  # three, and one of the last batch's size
PROFILED_STEPS = 3  # about
# Of steps beside the vendor's, as workloads/beside.py has them: steps on a few samples, and passes over a full batch.
BESIDE_STEPS, BESIDE_SAMPLES, BESIDE_PASSES = 4 * (2 + 7), 8, 2 + 2 + 2 * 6
REPEATED_STEPS = 1.5  # an epoch's audit: a step again, and its judgement


@dataclass(frozen=True)
class Rates:
    """Seconds of a sample in a training step and in a validation, and of what comes once.

    `update` is what a step takes whatever its samples; `once` start-up and set-up; `residuals` the provider's checks.
    """

    training: float
    validation: float
    update: float = 0.0
    once: float = 0.0
    residuals: float = 0.0


def seconds(rates: Rates, settings: Mapping[str, Any], steps: int, training: int, validation: int) -> dict[str, float]:
    """Seconds by phase of a rank that makes `steps` steps an epoch; both numbers of samples are of the whole dataset.

    Each of the Q ranks of a model trains and judges its share. The ensemble of several models judges all training
    samples besides, those out of bag.
    """
    epochs, batch, degree = settings["EPOCHS"], settings["BATCH"], settings["DEGREE"]
    step = rates.update + batch * rates.training
    judged = validation / degree * rates.validation
    bag = training / degree * rates.validation * (settings["GROUPS"] > 1)
    passes = ceil(epochs / settings["EVALUATE"])
    samples = BESIDE_STEPS * min(batch, BESIDE_SAMPLES) + BESIDE_PASSES * batch
    beside = samples * rates.training * (settings.get("KERNELS", "vendor") != "vendor")
    return {
        "preparation": rates.once + rates.residuals + beside + WARMUP_STEPS * step + 2 * batch * rates.validation,
        "training": epochs * steps * step,
        "audit": epochs * REPEATED_STEPS * step,
        "validation": passes * judged,
        "ensemble": judged + bag + PROFILED_STEPS * step,
    }
