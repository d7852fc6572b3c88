"""LARS (You, Gitman, Ginsburg, Large Batch Training of Convolutional Networks, 2017, algorithm 1).

For a tensor of two or more dimensions: q = t |w| / (|g| + d |w|), v' = m v + r q (g + d w), w' = w - v', where t is
TRUST; q = 1 where a norm is 0. For biases and batch norm q = 1 and d = 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcai.update_rules import RULES
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector
from hpcai.update_rules.sgd import VELOCITY


@RULES.register("lars")
@dataclass(frozen=True)
class Lars(UpdateRule):
    """LARS; the velocity, which includes the learning rate, is in fp32 for any weights."""

    optimiser = general = "hpcai.train.layerwise.Lars"
    fused = ("cpu",)
    momentum: float
    trust: float

    @property
    def state(self) -> tuple[str, ...]:
        return (VELOCITY,)

    def options(self) -> Mapping[str, Any]:
        return {"momentum": self.momentum, "trust": self.trust}

    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        others = {"momentum": self.momentum * before.state[VELOCITY]}
        if not before.decays:
            return {VELOCITY: Terms(others, lambda gradient: before.rate * gradient, gain=before.rate)}
        size = float(np.linalg.norm(before.weights))

        def rate(gradient: Vector) -> float:
            length = float(np.linalg.norm(gradient))
            return before.rate * (self.trust * size / (length + self.decay * size) if size and length else 1.0)

        others["weight decay"] = rate(before.gradient) * self.decay * before.weights
        return {VELOCITY: Terms(others, lambda gradient: rate(gradient) * gradient, gain=self._gain(before, size))}

    def _gain(self, before: BeforeStep, size: float) -> float:
        """Bound of the change of q (g + d w) by an error x of g, over |x|.

        g / (|g| + d |w|) changes by at most |x| / (|g| - |x| + d |w|), and so does the term of the weights; neither is
        larger than 1.
        """
        if not size or not before.gradient.any():
            return before.rate
        least = max(0.0, float(np.linalg.norm(before.gradient)) - before.error) + self.decay * size
        slopes = [1 / bound for bound in (least, before.error) if bound > 0]
        return 2 * before.rate * self.trust * size * min(slopes, default=0.0)

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return sums[VELOCITY]
