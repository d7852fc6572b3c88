"""Adam (Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015, algorithm 1), with weight decay d.

g = gradient + d w, m' = b1 m + (1 - b1) g, v' = b2 v + (1 - b2) g^2, w' = w - r m^ / (sqrt(v^) + e), where
m^ = m' / (1 - b1^t) and v^ = v' / (1 - b2^t) in update t.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hpcai.update_rules import RULES
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector

FIRST, SECOND = "exp_avg", "exp_avg_sq"  # torch's names of m and v


@RULES.register("adam")
@dataclass(frozen=True)
class Adam(UpdateRule):
    """Adam as torch has it; the moments are in fp32 for any weights, since 16 bits would round small squares to 0."""

    optimiser = "torch.optim.Adam"
    general = "hpcai.train.adaptive.Adam"
    roundings = 8
    own_epsilon = 1e-8
    decays_gradient: ClassVar[bool] = True
    beta1: float
    beta2: float
    epsilon: float

    @property
    def state(self) -> tuple[str, ...]:
        return FIRST, SECOND

    def options(self) -> Mapping[str, Any]:
        return {"betas": (self.beta1, self.beta2), "eps": self.eps}

    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        decayed = self.decay * before.weights if before.decays and self.decays_gradient else None
        return {FIRST: self._first(before, decayed), SECOND: self._second(before, decayed)}

    def _first(self, before: BeforeStep, decayed: Vector | None) -> Terms:
        left = 1 - self.beta1
        others = {"first moment": self.beta1 * before.state[FIRST]}
        if decayed is not None:
            others["weight decay"] = left * decayed
        return Terms(others, lambda gradient: left * gradient, gain=left)

    def _second(self, before: BeforeStep, decayed: Vector | None) -> Terms:
        left, added = 1 - self.beta2, 0.0 if decayed is None else decayed
        largest = float(np.abs(before.gradient + added).max(initial=0.0))
        # (g + x)^2 - g^2 = 2 g x + x^2 for an error x of the gradient
        return Terms(
            {"second moment": self.beta2 * before.state[SECOND]},
            lambda gradient: left * np.square(gradient + added),
            gain=left * (2 * largest + before.error),
        )

    def update(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        """m^ / (sqrt(v^) + e)."""
        first = sums[FIRST] / (1 - self.beta1**before.number)
        second = sums[SECOND] / (1 - self.beta2**before.number)
        found: Vector = first / (np.sqrt(second) + self.eps)
        return found

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return before.rate * self.update(before, sums)
