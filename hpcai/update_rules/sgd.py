"""Stochastic gradient descent with momentum m and weight decay d: v' = m v + d w + g, w' = w - r v'."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcai.update_rules import RULES
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector

VELOCITY = "momentum_buffer"  # torch's name


@RULES.register("sgd")
@dataclass(frozen=True)
class Sgd(UpdateRule):
    """SGD as torch has it (dampening 0); without momentum no state is kept."""

    optimiser = "torch.optim.SGD"
    momentum: float

    @property
    def state(self) -> tuple[str, ...]:
        return (VELOCITY,) if self.momentum else ()

    @property
    def created_state(self) -> tuple[str, ...]:
        """torch leaves the velocity undefined if the first step is skipped; zero gives the same first step."""
        return self.state

    def options(self) -> Mapping[str, Any]:
        return {"momentum": self.momentum}

    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        others = {}
        if self.momentum:
            others["momentum"] = self.momentum * before.state[VELOCITY]
        if before.decays:
            others["weight decay"] = self.decay * before.weights
        return {VELOCITY: Terms(others)}

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return before.rate * sums[VELOCITY]
