"""How far an optimiser step is from the float64 formula of its update rule.

Two measures. The *deviation* compares the optimiser's new state with the formula, and the new weights with the move
that this state makes, in units of what rounding allows. The *lost share* projects the difference between the new state
and the formula on each term of the formula, and the difference of the weights on their move: 1 where a term is missing
or counted twice, and near 0 for anything random, so that one missing rank among 1000 is found. A rule without state is
compared in the weights alone. Moves of weights that are smaller than the rounding of the weights show nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hpcai.formulas.score import LARGEST
from hpcai.train.other_shards import OtherShards
from hpcai.train.step_tensors import Tensor
from hpcai.update_rules.rule import BeforeStep, Terms, UpdateRule, Vector

Worst = tuple[float, str]
Shown = Callable[[Vector], Vector]  # of a term: the difference in the stored numbers if it were missing


@dataclass(frozen=True)
class Step:
    """An optimiser step to compare with: rule, learning rate and number of the update (from 1).

    noise: the largest share of a tensor's gradient by which a repetition may differ; skipped: whether the step was left
    out because a gradient was not finite, None where steps never are.
    """

    rule: UpdateRule
    rate: float
    number: int
    ranks: int
    rounding_allowance: float
    skipped: bool | None = None


@dataclass
class _Projection:
    """Projection of the difference on a term of the formula, over several tensors, and the projection of rounding.

    `biased`: a repetition's change may have a direction, since other kernels round a layer's gradient otherwise.
    """

    biased: bool
    product: float = 0.0
    square: float = 0.0
    rounding: float = 0.0
    spread: float = 0.0
    count: int = 0

    def add(self, term: Vector, difference: Vector, rounding: float, spread: float) -> None:
        self.product += float(term @ difference)
        self.square += float(term @ term)
        self.rounding += rounding**2
        self.spread += spread**2
        self.count += len(term)

    def lost(self, rounding_allowance: float) -> float:
        """Share of the term that is missing or excess; near 0 for a term hidden by rounding."""
        size, spread = self.square**0.5, rounding_allowance * self.spread**0.5
        floor = self.rounding**0.5 + (2 * spread if self.biased else 4 * spread / max(self.count, 1) ** 0.5)
        return ratio(abs(self.product), size * (size + floor))


@dataclass
class Comparison:
    """The largest deviation and the largest lost share of a step, each with its location."""

    deviation: Worst = (0.0, "")
    lost: Worst = (0.0, "")
    overflow: bool = False  # of a replayed gradient
    _projections: dict[str, _Projection] = field(default_factory=dict)


def compare_update(step: Step, tensors: Iterable[Tensor], shards: OtherShards | None = None) -> Comparison:
    """Compare a step with its formula.

    A tensor whose formula gives no finite numbers of its type is left out: the check of the loss finds that.
    `shards`: what other ranks know of the step, by default none. Collective over them.
    """
    found, shards = Comparison(), shards or OtherShards()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for tensor in tensors:
            before = _before(step, tensor, shards)  # collective, so whatever is found in this tensor
            found.overflow |= tensor.overflow or not np.isfinite(tensor.mean).all()
            if tensor.carried and not tensor.overflow:
                excess = _finite(tensor.carried.excess)
                found.deviation = max(found.deviation, (excess, f"errors kept of {tensor.name}"))
            if step.skipped:
                found.deviation = max(found.deviation, (LARGEST * _changed(tensor), tensor.name))
            else:
                _compare(step, tensor, before, found)
    if step.skipped is not None and step.skipped != shards.anywhere(found.overflow):
        found.deviation = (LARGEST, "overflow")
    for name, projection in found._projections.items():
        found.lost = max(found.lost, (_finite(projection.lost(step.rounding_allowance)), name))
    return found


def _before(step: Step, t: Tensor, shards: OtherShards) -> BeforeStep:
    """What the formula reads. Collective over the shards of the tensor."""
    state = {name: kept.before for name, kept in t.state.items()}
    error = step.rounding_allowance * t.spread + t.sent_error
    before = BeforeStep(t.before, t.mean, error, state, step.rate, step.number, t.decays)
    if not t.divided or shards.none:
        return before
    own = step.rule.norms(before, {name: kept.after for name, kept in t.state.items()})
    return replace(before, elsewhere=shards.norms(own))


def _compare(step: Step, t: Tensor, before: BeforeStep, found: Comparison) -> None:
    rule = step.rule
    sums = rule.sums(before)
    formula = {name: terms.total(t.mean) for name, terms in sums.items()}
    kinds = {name: kept.kind for name, kept in t.state.items()}
    if not all(_fits(kinds.get(name, t.kind), total) for name, total in formula.items()):
        return
    if not _fits(t.kind, t.before - rule.move(before, formula)):
        return
    left = {name: t.state[name].after if name in t.state else total for name, total in formula.items()}
    if all(name in t.state for name in sums):
        _compare_weights(t, rule, before, left, found)
    for name, terms in sums.items():
        where = f" in {name}" if len(sums) > 1 else ""
        if name in t.state:
            kept = t.state[name]
            _compare_sum(step, t, terms, where, found, kept.kind, kept.after - formula[name], _identity)
        else:
            _compare_sum(step, t, terms, where, found, t.kind, *_in_weights(rule, t, before, name, left))


def _compare_sum(
    step: Step,
    t: Tensor,
    terms: Terms,
    where: str,
    found: Comparison,
    kind: torch.finfo,
    difference: Vector,
    shown: Shown,
) -> None:
    """Compare a sum, as stored numbers show it, with the formula.

    `kind` is the type that the sum is rounded to. Below its smallest normal number the spacing is constant.
    """
    norms = sum(map(_norm, terms.others.values())) + len(difference) ** 0.5 * kind.tiny
    norms += max(terms.gain * t.size, _norm(terms.of_gradient(t.mean)))  # weight decay may be part of the second
    rounding = 8 * step.ranks**0.5 * kind.eps / 2 * norms
    spread = terms.gain * (t.spread + t.sent_error / step.rounding_allowance)  # both are errors of the gradient
    spread += terms.error_elsewhere / step.rounding_allowance
    deviation = ratio(_norm(difference), rounding + step.rounding_allowance * spread)
    found.deviation = max(found.deviation, (_finite(deviation), t.name))
    for name, term, biased in _named(step, t, terms):
        seen = shown(term)
        share = _share(_norm(seen), _norm(term), len(term))
        projection = found._projections.setdefault(name + where, _Projection(biased))
        projection.add(seen, difference, share * rounding, (share if biased else 1.0) * spread)


def _compare_weights(
    t: Tensor, rule: UpdateRule, before: BeforeStep, state: Mapping[str, Vector], found: Comparison
) -> None:
    """Compare the new weights with the move made by the stored state, element by element within rounding."""
    move = rule.move(before, state)
    exact = t.before - move
    rounding_bound = _rounding_bound(t, rule, before, state)
    wrong = _excess(t.after - exact, rounding_bound)
    missing = _excess(move, rounding_bound)  # the error if no element had moved
    worst = float((np.abs(wrong) / (2 * rounding_bound)).max(initial=0.0))
    found.deviation = max(found.deviation, (_finite(worst), t.name))
    lost = ratio(abs(float(wrong @ missing)), float(missing @ missing))
    found.lost = max(found.lost, (_finite(lost), f"update of {t.name}"))


def _in_weights(
    rule: UpdateRule, t: Tensor, before: BeforeStep, name: str, formula: Mapping[str, Vector]
) -> tuple[Vector, Shown]:
    """For a sum that is not stored: its difference as the weights show it, and that which a lost term would make."""
    exact, factor = t.before - rule.move(before, formula), rule.factor(before, formula)
    rounding_bound = _rounding_bound(t, rule, before, formula)

    def shown(term: Vector) -> Vector:
        lacking = t.before - rule.move(before, {**formula, name: formula[name] - term})
        return _excess(t.stored(lacking) - exact, rounding_bound) / factor

    return _excess(t.after - exact, rounding_bound) / factor, shown


def _rounding_bound(t: Tensor, rule: UpdateRule, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
    exact, added = t.before - rule.move(before, sums), rule.terms_of_move(before, sums)
    return t.rounding_bound(exact, added, rule.roundings, rule.weight_roundings)


def _named(step: Step, t: Tensor, terms: Terms) -> Iterator[tuple[str, Vector, bool]]:
    """Terms, their names and whether they are biased: gradients one by one, other terms over the whole model."""
    whole = terms.of_gradient(t.mean)
    yield f"gradient of {t.name}", whole, True
    yield "gradient of a rank", whole - terms.of_gradient(t.mean - t.local_gradient / step.ranks), False
    if t.carried:
        yield "error feedback", whole - terms.of_gradient(t.mean - t.carried.added), False
    for name, term in terms.others.items():
        yield name, term, False


def _share(seen: float, whole: float, elements: int) -> float:
    """Share of an error along a term that shows in a part of the term.

    An error in a random direction shows by chance; allow twice its mean in any one direction.
    """
    return min(1.0, max(ratio(seen, whole), 2 / max(elements, 1) ** 0.5))


def _identity(term: Vector) -> Vector:
    return term


def _excess(difference: Vector, rounding_bound: Vector) -> Vector:
    """The part of differences that rounding does not explain; 0 where it does."""
    part: Vector = np.sign(difference) * np.maximum(np.abs(difference) - rounding_bound, 0.0)
    return part


def _fits(kind: torch.finfo, vector: Vector) -> bool:
    """Whether a type can represent these numbers."""
    return bool(np.abs(vector).max(initial=0.0) <= kind.max)


def _changed(t: Tensor) -> bool:
    moved = (not np.array_equal(kept.before, kept.after, equal_nan=True) for kept in t.state.values())
    return any(moved) or not np.array_equal(t.before, t.after, equal_nan=True)


def _norm(vector: Vector) -> float:
    return float(np.sqrt(vector @ vector))


def ratio(value: float, allowed: float) -> float:
    """value / allowed; 0 or LARGEST where nothing is allowed."""
    return value / allowed if allowed > 0 else LARGEST * (value != 0)


def _finite(value: float) -> float:
    return value if value < LARGEST else LARGEST
