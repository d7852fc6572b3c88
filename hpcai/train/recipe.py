"""The hyper-parameters of a training, from a case of the input."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from hpcai.inputfile.split import split_of
from hpcai.train.schedules import learning_rate
from hpcai.update_rules import rule_of
from hpcai.update_rules.rule import UpdateRule


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of one training; `learning_rate` is for a global batch |B| = Q x NB of 256 samples.

    batch: of each of the `degree` replicas of the model that train on samples of their own. clip: largest norm of a
    step's gradient; 0: any.
    """

    batch: int
    degree: int
    epochs: int
    warmup_epochs: float
    evaluate_every: int
    learning_rate: float
    schedule: str
    scaling: str
    rule: UpdateRule
    smoothing: float
    clip: float = 0.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe of a case's settings, by the KEYs of the input; without EVALUATE every epoch is validated."""
        divided = split_of(settings)
        return cls(
            batch=settings["BATCH"] * divided.parts,
            degree=divided.replicas,
            epochs=settings["EPOCHS"],
            warmup_epochs=settings["WARMUP"],
            evaluate_every=settings.get("EVALUATE", 1),
            learning_rate=settings["LEARNRATE"],
            schedule=settings["SCHEDULE"],
            scaling=settings["SCALING"],
            rule=rule_of(settings),
            smoothing=settings.get("SMOOTHING", 0.0),
            clip=settings.get("CLIP", 0.0),
        )

    @property
    def peak_rate(self) -> float:
        """Learning rate after warm-up, scaled with the global batch.

        Linearly (Goyal et al., 2017), by its square root (Krizhevsky, 2014), or not.
        """
        batches = self.batch * self.degree / 256
        return self.learning_rate * {"linear": batches, "sqrt": sqrt(batches), "none": 1.0}[self.scaling]

    def rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate of optimiser step `step` (from 0, over all epochs)."""
        warmup, steps = self.warmup_epochs * steps_per_epoch, self.epochs * steps_per_epoch
        return learning_rate(self.schedule, self.peak_rate, step, steps, warmup)

    def evaluates(self, epoch: int) -> bool:
        """Whether a validation follows epoch `epoch` (from 1); one always follows the last."""
        return epoch % self.evaluate_every == 0 or epoch == self.epochs
