"""What one optimiser step must make of the weights, written out in float64, and how far a step is from it.

SGD with momentum m, weight decay d and learning rate r: v' = m v + d w + g, w' = w - r v', g the mean of the gradients
of Q ranks, d = 0 for vectors. The step is judged by two measures. The *deviation* compares v' and w' with the formula,
tensor by tensor, in units of what rounding allows. The *lost share* projects what is left over, v' - (m v + d w + g),
on each term of the formula: 1 where the term is missing or stands twice, and near 0 for anything random; so one rank's
gradient is missed among 1000, whatever the precision.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

LARGEST = 9999999.0  # stands for a value that is infinite, no number, or does not fit the column
Vector = npt.NDArray[np.float64]
Worst = tuple[float, str]


@dataclass(frozen=True)
class Rule:
    """The formula of a step.

    noise: the largest share of a tensor's gradient that a repetition may change; left_out: whether the step was left
    out because a gradient was no finite number, None where no step ever is.
    """

    rate: float
    momentum: float
    decay: float
    ranks: int
    noise: float
    left_out: bool | None = None


@dataclass(frozen=True)
class Tensor:
    """One tensor of parameters at one step, flat, in float64; `kind` tells of the type that it is kept in.

    `own` is this rank's gradient, `mean` that of the group; `spread` is the square root of the sum of the squared
    norms of the ranks' gradients, `size` the sum of the norms, each / Q; without momentum there is no velocity.
    """

    name: str
    kind: torch.finfo
    decays: bool
    before: Vector
    after: Vector
    velocity: Vector
    velocity_after: Vector | None
    own: Vector
    mean: Vector
    spread: float
    size: float

    @property
    def unit(self) -> float:
        """Unit roundoff of the type."""
        return self.kind.eps / 2

    def fits(self, vector: Vector) -> bool:
        """Whether the type can hold these numbers."""
        return bool(np.abs(vector).max(initial=0.0) <= self.kind.max)


@dataclass
class _Term:
    """A term of the formula, over some tensors: products with what is left over, and what rounding makes of them.

    `biased`: what a repetition changes may have a direction, as other kernels round a layer's gradient otherwise.
    """

    biased: bool
    product: float = 0.0
    square: float = 0.0
    rounding: float = 0.0
    spread: float = 0.0
    count: int = 0

    def add(self, term: Vector, rest: Vector, rounding: float, spread: float) -> None:
        self.product += float(term @ rest)
        self.square += float(term @ term)
        self.rounding += rounding**2
        self.spread += spread**2
        self.count += len(term)

    def lost(self, noise: float) -> float:
        """Share of the term that is missing or too much; near 0 for a term too small to be told from rounding."""
        size, spread = self.square**0.5, noise * self.spread**0.5
        floor = self.rounding**0.5 + (2 * spread if self.biased else spread / max(self.count, 1) ** 0.5)
        return _ratio(abs(self.product), size * (size + floor))


@dataclass
class Judgement:
    """The worst deviation and the worst lost share of a step, with where they are."""

    deviation: Worst = (0.0, "")
    lost: Worst = (0.0, "")
    overflow: bool = False  # of a repeated gradient
    _terms: dict[str, _Term] = field(default_factory=dict)


def judge(rule: Rule, tensors: Iterable[Tensor]) -> Judgement:
    """Judge a step. A tensor whose formula gives no finite numbers of its type is left out: the loss tells of it."""
    judgement = Judgement()
    with np.errstate(over="ignore", invalid="ignore"):
        for tensor in tensors:
            judgement.overflow |= not np.isfinite(tensor.mean).all()
            if rule.left_out:
                judgement.deviation = max(judgement.deviation, (LARGEST * _changed(tensor), tensor.name))
            else:
                _judge(rule, tensor, judgement)
    if rule.left_out is not None and rule.left_out != judgement.overflow:
        judgement.deviation = (LARGEST, "overflow")
    for name, term in judgement._terms.items():
        judgement.lost = max(judgement.lost, (_finite(term.lost(rule.noise)), name))
    return judgement


def _judge(rule: Rule, t: Tensor, judgement: Judgement) -> None:
    decay = rule.decay * t.decays * t.before
    formula = rule.momentum * t.velocity + decay + t.mean
    if not (t.fits(formula) and t.fits(t.before - rule.rate * formula)):
        return
    norms = rule.momentum * _norm(t.velocity) + _norm(decay) + t.size
    rounding = 8 * rule.ranks**0.5 * t.unit * norms
    found = t.velocity_after
    if found is None:
        found = (t.before - t.after) / rule.rate
        rounding += 8 * t.unit * _norm(t.after) / rule.rate
    rest = found - formula
    for value in (_applied(rule, t), _ratio(_norm(rest), rounding + rule.noise * t.spread)):
        judgement.deviation = max(judgement.deviation, (_finite(value), t.name))
    for name, term in _terms(rule, t, decay):
        total = judgement._terms.setdefault(name, _Term(biased=term is t.mean))
        total.add(term, rest, rounding, t.spread)


def _changed(t: Tensor) -> bool:
    moved = t.velocity_after is not None and not np.array_equal(t.velocity, t.velocity_after, equal_nan=True)
    return moved or not np.array_equal(t.before, t.after, equal_nan=True)


def _applied(rule: Rule, t: Tensor) -> float:
    """w' against w - r v' with the v' that the step left behind: rounding alone, in any precision."""
    if t.velocity_after is None:
        return 0.0
    move = rule.rate * t.velocity_after
    return _ratio(_norm(t.after - (t.before - move)), 8 * t.unit * (_norm(t.after) + _norm(move)))


def _terms(rule: Rule, t: Tensor, decay: Vector) -> Iterator[tuple[str, Vector]]:
    """The gradient of each tensor by itself; the others over the whole model."""
    yield f"gradient of {t.name}", t.mean
    yield "gradient of a rank", t.own / rule.ranks
    yield "momentum", rule.momentum * t.velocity
    if t.decays:
        yield "weight decay", decay


def _norm(vector: Vector) -> float:
    return float(np.sqrt(vector @ vector))


def _ratio(value: float, allowed: float) -> float:
    return value / allowed if allowed > 0 else LARGEST * (value != 0)


def _finite(value: float) -> float:
    return value if value < LARGEST else LARGEST
