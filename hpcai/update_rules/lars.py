"""LARS (You, Gitman, Ginsburg, Large Batch Training of Convolutional Networks, 2017, algorithm 1).

For a tensor of two or more dimensions: q = t |w| / (|g| + d |w|), v' = m v + r q (g + d w), w' = w - v', where t is
TRUST; q = 1 where a norm is 0. For biases and batch norm q = 1 and d = 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from hpcai.update_rules import RULES
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector, norm
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

    def norms(self, before: BeforeStep, state: Mapping[str, Vector]) -> Mapping[str, float]:
        if not before.decays:
            return {}
        return {"weights": norm(before.weights), "gradient": norm(before.gradient), "error": before.error}

    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        others = {"momentum": self.momentum * before.state[VELOCITY]}
        if not before.decays:
            return {VELOCITY: Terms(others, lambda gradient: before.rate * gradient, gain=before.rate)}
        size = before.whole("weights", norm(before.weights))

        def rate(gradient: Vector) -> float:
            length = before.whole("gradient", norm(gradient))
            return before.rate * (self.trust * size / (length + self.decay * size) if size and length else 1.0)

        others["weight decay"] = rate(before.gradient) * self.decay * before.weights
        gain, elsewhere = self._gain(before, size)
        return {VELOCITY: Terms(others, lambda gradient: rate(gradient) * gradient, gain, elsewhere)}

    def _gain(self, before: BeforeStep, size: float) -> tuple[float, float]:
        """Bound of the change of q (g + d w) by an error x of g, over |x|; and what other shards' errors add to it.

        With D = |g| + d |w| and D' = D - |x|, of whole tensors: g / D changes by at most |x| / D', since its derivative
        has no eigenvalue above 1 / D, and d w / D by d |w| |x| / (D D'). The sum is never longer than 1. Of a shard,
        g / D changes by at most |x of the shard| / D' + |g of the shard| |x| / (D D') as well.
        """
        own, length = norm(before.gradient), before.whole("gradient", norm(before.gradient))
        if not size or not length:
            return before.rate, 0.0
        error, full = before.whole("error", before.error), length + self.decay * size
        least, decayed = max(0.0, length - error) + self.decay * size, self.decay * norm(before.weights) / full
        gain = min(_quotient(1 + decayed, least), _quotient(2.0, error))
        of_shard = min(error, before.error + own / full * error) + decayed * error
        elsewhere = min(_quotient(of_shard, least), 2.0) - gain * before.error
        factor = before.rate * self.trust * size
        return factor * gain, factor * max(0.0, elsewhere)

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return sums[VELOCITY]


def _quotient(value: float, bound: float) -> float:
    return value / bound if bound > 0 else inf
