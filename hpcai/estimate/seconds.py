"""Time estimate of one rank in one test, from measured step times and their number."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from hpcai.formulas.pipeline import expected_bubble
from hpcai.inputfile.split import chunks_of, split_of

WARMUP_STEPS = 4  # three, and one with the size of the last batch
PROFILED_STEPS = 3  # approximately
# Of the vendor comparison (hpcai.preflight.vendor_comparison): steps on a few samples, and passes over a full batch.
COMPARISON_STEPS, COMPARISON_SAMPLES, COMPARISON_PASSES = 4 * (2 + 7), 8, 2 + 2 + 2 * 6
REPLAYED_STEPS = 1.5  # the replay of an epoch's step, and its comparison


@dataclass(frozen=True)
class Rates:
    """Measured seconds per sample in a training step and in a validation, and one-time seconds.

    `update` is what a step takes whatever its samples; `once` start-up and set-up; `residuals` the provider's checks.
    """

    training: float
    validation: float
    update: float = 0.0
    once: float = 0.0
    residuals: float = 0.0


def seconds(rates: Rates, settings: Mapping[str, Any], steps: int, training: int, validation: int) -> dict[str, float]:
    """Seconds by phase of a rank with `steps` steps an epoch; both numbers of samples are of the whole dataset.

    Each of the Q ranks of a model trains and evaluates its share; the stages of a pipeline wait for each other. An
    ensemble of several models also evaluates all training samples, out of bag.
    """
    epochs, batch, degree = settings["EPOCHS"], settings["BATCH"], settings["DEGREE"]
    stages, chunks = split_of(settings).stages, chunks_of(settings)
    step = rates.update + batch * rates.training / (1 - expected_bubble(stages, chunks))
    evaluated = validation / degree * rates.validation
    bag = training / degree * rates.validation * (settings["GROUPS"] > 1)
    passes = ceil(epochs / settings["EVALUATE"])
    samples = COMPARISON_STEPS * min(batch, COMPARISON_SAMPLES) + COMPARISON_PASSES * batch
    comparison = samples * rates.training * (settings.get("KERNELS", "vendor") != "vendor")
    return {
        "preparation": rates.once + rates.residuals + comparison + WARMUP_STEPS * step + 2 * batch * rates.validation,
        "training": epochs * steps * step,
        "replay": epochs * REPLAYED_STEPS * step,
        "validation": passes * evaluated,
        "ensemble": evaluated + bag + PROFILED_STEPS * step,
    }
