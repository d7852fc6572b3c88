"""The hyper-parameters of one training, taken from a case of the input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """How one model is trained; `learning_rate` is meant for 256 samples of global batch |B| = Q x NB."""

    batch: int
    degree: int
    epochs: int
    warmup_epochs: float
    evaluate_every: int
    learning_rate: float
    schedule: str
    momentum: float
    decay: float
    smoothing: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Recipe":
        """The recipe of a case's settings, by the KEYs of the input; without EVALUATE each epoch is validated."""
        return cls(
            batch=settings["BATCH"],
            degree=settings["DEGREE"],
            epochs=settings["EPOCHS"],
            warmup_epochs=settings["WARMUP"],
            evaluate_every=settings.get("EVALUATE", 1),
            learning_rate=settings["LEARNRATE"],
            schedule=settings["SCHEDULE"],
            momentum=settings["MOMENTUM"],
            decay=settings["DECAY"],
            smoothing=settings.get("SMOOTHING", 0.0),
        )

    @property
    def peak_rate(self) -> float:
        """Learning rate after warm-up: linear scaling with the global batch (Goyal et al. 2017)."""
        return self.learning_rate * self.batch * self.degree / 256

    def evaluates(self, epoch: int) -> bool:
        """Whether a validation follows epoch `epoch` (from 1); the last one always has one."""
        return epoch % self.evaluate_every == 0 or epoch == self.epochs
