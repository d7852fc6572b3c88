"""AdamW (Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2).

Adam without weight decay in the gradient; the weights decay by r d w besides, batch norm and biases do not.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hpcai.update_rules import RULES
from hpcai.update_rules.adam import Adam
from hpcai.update_rules.rule import BeforeStep, Vector


@RULES.register("adamw")
@dataclass(frozen=True)
class AdamW(Adam):
    """AdamW as torch has it: the weights are multiplied by 1 - r d first."""

    optimiser = "torch.optim.AdamW"
    general = "hpcai.train.adaptive.AdamW"
    weight_roundings = 2
    decays_gradient = False

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        decayed = self.decay * before.weights if before.decays else 0.0
        return before.rate * (self.update(before, sums) + decayed)

    def terms_of_move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        decayed = self.decay * before.weights if before.decays else 0.0
        return before.rate * (np.abs(self.update(before, sums)) + np.abs(decayed))
