"""AdaGrad (Duchi, Hazan, Singer, Adaptive Subgradient Methods, 2011, with a diagonal matrix).

g = gradient + d w, s' = s + g^2, w' = w - r g / (sqrt(s') + e).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcai.update_rules import RULES
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector

SQUARES, GRADIENT = "sum", "gradient"  # torch's name of s; of g, which is not stored


@RULES.register("adagrad")
@dataclass(frozen=True)
class AdaGrad(UpdateRule):
    """AdaGrad as torch has it, without decay of the rate; the sum of squares is in fp32 for any weights."""

    optimiser = "torch.optim.Adagrad"
    general = "hpcai.train.adaptive.AdaGrad"
    fused = ("cpu",)
    roundings = 6
    own_epsilon = 1e-10
    epsilon: float

    @property
    def state(self) -> tuple[str, ...]:
        return (SQUARES,)

    def options(self) -> Mapping[str, Any]:
        return {"eps": self.eps}

    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        decayed = self.decay * before.weights if before.decays else np.zeros_like(before.weights)
        largest = float(np.abs(before.gradient + decayed).max(initial=0.0))
        return {
            SQUARES: Terms(
                {"sum of squares": before.state[SQUARES]},
                lambda gradient: np.square(gradient + decayed),
                gain=2 * largest + before.error,
            ),
            GRADIENT: Terms({"weight decay": decayed} if before.decays else {}),
        }

    def factor(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector | float:
        found: Vector = before.rate / (np.sqrt(sums[SQUARES]) + self.eps)
        return found

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return self.factor(before, sums) * sums[GRADIENT]
