"""LARS (You, Gitman, Ginsburg, Large Batch Training of Convolutional Networks, 2017, algorithm 1).

For a tensor of two or more dimensions: q = t |w| / (|g| + d |w|), v' = m v + r q (g + d w), w' = w - v', where t is
TRUST; q = 1 where a norm is 0. For biases and batch norm q = 1 and d = 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
        """Bound of the change of q (g + d w) by an error x of g, over |x|; and by the error of other shards.

        g / (|g| + d |w|) changes by at most |x| / (|g| - |x| + d |w|), and so does the term of the weights; neither is
        larger than 1. All norms are of whole tensors. Of a shard g and w, with the share s of |g| + d |w|, changes by
        its own error and s times by that of the whole, which is at most the sum of its own and of that of the others.
        """
        own, length = norm(before.gradient), before.whole("gradient", norm(before.gradient))
        if not size or not length:
            return before.rate, 0.0
        error = before.whole("error", before.error)
        least = max(0.0, length - error) + self.decay * size
        slopes = [1 / bound for bound in (least, error) if bound > 0]
        slope = before.rate * self.trust * size * min(slopes, default=0.0)
        share = (own + self.decay * norm(before.weights)) / (length + self.decay * size)
        most = 1 + share
        return most * slope, (share if least > error else most) * slope * before.elsewhere.get("error", 0.0)

    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        return sums[VELOCITY]
