"""LAMB (You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 Minutes, 2020, algorithm 2).

m^ and v^ as Adam's, without weight decay in the gradient; u = m^ / (sqrt(v^) + e) + d w, q = |w| / |u|, w' = w - r q u.
q = 1 where a norm is 0. For biases and batch norm q = 1 and d = 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hpcai.update_rules import RULES
from hpcai.update_rules.adam import Adam
from hpcai.update_rules.rule import BeforeStep, Vector, norm


@RULES.register("lamb")
@dataclass(frozen=True)
class Lamb(Adam):
    """LAMB with the identity as the function of the weights' norm."""

    optimiser = general = "hpcai.train.layerwise.Lamb"
    fused = ("cpu",)
    roundings = 16
    own_epsilon = 1e-6
    decays_gradient = False
    moves_by_norms = True

    def norms(self, before: BeforeStep, state: Mapping[str, Vector]) -> Mapping[str, float]:
        if not before.decays:
            return {}
        return {"weights": norm(before.weights), "update": norm(self._update(before, state))}

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        update = self._update(before, sums)
        return before.rate * self._ratio(before, update) * update

    def terms_of_move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        ratio = self._ratio(before, self._update(before, sums))
        decayed = self.decay * before.weights if before.decays else 0.0
        return before.rate * ratio * (np.abs(self.update(before, sums)) + np.abs(decayed))

    def _update(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        update = self.update(before, sums)
        return update + self.decay * before.weights if before.decays else update

    @staticmethod
    def _ratio(before: BeforeStep, update: Vector) -> float:
        size, length = before.whole("weights", norm(before.weights)), before.whole("update", norm(update))
        return size / length if before.decays and size and length else 1.0
