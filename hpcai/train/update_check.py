"""What one optimiser step must make of the weights, written out in float64, and how far a step is from it.

SGD with momentum m, weight decay d and learning rate r: v' = m v + d w + g, w' = w - r v', g the mean of the gradients
of Q ranks, d = 0 for vectors. The step is judged by two measures. The *deviation* compares v' and w' with the formula,
in units of what rounding allows. The *lost share* projects what is left over, v' - (m v + d w + g), on each term of the
formula, and w' - (w - r v') on the update: 1 where that is missing or stands twice, and near 0 for anything random; so
one rank's gradient is missed among 1000. Moves of w that are smaller than its rounding tell nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

SINGLE = 2.0**-24  # unit roundoff of fp32, in which an optimiser computes what it stores in a shorter type
LARGEST = 9999999.0  # stands for a value that is infinite, no number, or does not fit the column
Vector = npt.NDArray[np.float64]
Worst = tuple[float, str]
Told = Callable[[Vector], Vector]  # of a term: what its loss would leave over, as far as the stored type shows it


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

    def stored(self, vector: Vector) -> Vector:
        """These numbers as the type keeps them."""
        kept: Vector = torch.from_numpy(vector).to(getattr(torch, self.kind.dtype)).double().numpy()
        return kept

    def reach(self, exact: Vector, move: Vector) -> Vector:
        """How far a stored w - move may be from the exact one, element by element.

        Half the spacing of the type's numbers; and before that is rounded: r and r v', on a CPU both in the type (or v'
        as a fused optimiser on a GPU goes on with it, not rounded yet), and in fp32 the difference.
        """
        slack = ((2 + self.unit) * self.unit + 4 * SINGLE) * np.abs(move)
        slack += (self.unit > SINGLE) * SINGLE * np.abs(exact)
        _, exponent = np.frexp(np.maximum(np.abs(exact) + slack, self.kind.tiny))
        slack += np.ldexp(self.unit, exponent - 1)
        return slack


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
        floor = self.rounding**0.5 + (2 * spread if self.biased else 4 * spread / max(self.count, 1) ** 0.5)
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
    if t.velocity_after is None:
        scale, rest, told = rule.rate, *_in_weights(rule, t, formula)
    else:
        _judge_update(t, rule.rate * t.velocity_after, judgement)
        scale, rest, told = 1.0, t.velocity_after - formula, _as_it_is
    deviation = _ratio(_norm(rest), scale * (rounding + rule.noise * t.spread))
    judgement.deviation = max(judgement.deviation, (_finite(deviation), t.name))
    for name, term in _terms(rule, t, decay):
        seen, biased = told(term), term is t.mean
        share = scale * _share(_norm(seen), scale * _norm(term), len(term))
        total = judgement._terms.setdefault(name, _Term(biased))
        total.add(seen, rest, share * rounding, (share if biased else scale) * t.spread)


def _judge_update(t: Tensor, move: Vector, judgement: Judgement) -> None:
    """w' against w - r v' with the v' that the step left behind: rounding alone, of each element."""
    exact = t.before - move
    reach = t.reach(exact, move)
    wrong = _beyond(t.after - exact, reach)
    missing = _beyond(move, reach)  # what would be wrong if no element had moved
    worst = float((np.abs(wrong) / (2 * reach)).max(initial=0.0))
    judgement.deviation = max(judgement.deviation, (_finite(worst), t.name))
    lost = _ratio(abs(float(wrong @ missing)), float(missing @ missing))
    judgement.lost = max(judgement.lost, (_finite(lost), f"update of {t.name}"))


def _in_weights(rule: Rule, t: Tensor, formula: Vector) -> tuple[Vector, Told]:
    """What is left over where no velocity tells it, w' - (w - r v'), and what a lost term would leave there."""
    move = rule.rate * formula
    exact = t.before - move
    reach = t.reach(exact, move)
    return _beyond(t.after - exact, reach), lambda term: _beyond(t.stored(exact + rule.rate * term) - exact, reach)


def _share(seen: float, whole: float, elements: int) -> float:
    """How much of an error with the direction of a term shows where only a part of the term does.

    Of an error without direction that much shows by chance: twice its mean in any one direction.
    """
    return min(1.0, max(_ratio(seen, whole), 2 / max(elements, 1) ** 0.5))


def _as_it_is(term: Vector) -> Vector:
    return term


def _beyond(difference: Vector, reach: Vector) -> Vector:
    """The part of differences that rounding does not explain; 0 where it does."""
    part: Vector = np.sign(difference) * np.maximum(np.abs(difference) - reach, 0.0)
    return part


def _changed(t: Tensor) -> bool:
    moved = t.velocity_after is not None and not np.array_equal(t.velocity, t.velocity_after, equal_nan=True)
    return moved or not np.array_equal(t.before, t.after, equal_nan=True)


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
