"""For a shard of a tensor, and norms of its other shards, LARS and LAMB are what they are for the whole tensor."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from hpcai.update_rules.lamb import Lamb
from hpcai.update_rules.lars import Lars
from hpcai.update_rules.rule import BeforeStep, UpdateRule, Vector

RULES: dict[str, UpdateRule] = {
    "lars": Lars(decay=0.1, momentum=0.9, trust=0.02),
    "lars without decay": Lars(decay=0.0, momentum=0.9, trust=0.02),
    "lamb": Lamb(decay=0.1, beta1=0.9, beta2=0.99, epsilon=0.0),
}
SHARDS = (slice(0, 2), slice(2, 9), slice(9, 10))


def drawn(rule: UpdateRule, seed: int, error: float = 0.0) -> BeforeStep:
    """A tensor of ten weights."""
    random = np.random.default_rng(seed)
    weights, gradient, *state = (random.standard_normal(10) * random.uniform(0.1, 3) for _ in range(4))
    kept = dict(zip(rule.state, (state[0], np.abs(state[1])), strict=False))
    return BeforeStep(weights, gradient, error, kept, 0.1, 3, True)


def part_of(before: BeforeStep, part: slice, error: float = 0.0) -> BeforeStep:
    state = {name: value[part] for name, value in before.state.items()}
    return replace(before, weights=before.weights[part], gradient=before.gradient[part], state=state, error=error)


def shards(rule: UpdateRule, before: BeforeStep, errors: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Iterator[BeforeStep]:
    """Each shard, with the norms of the others."""
    parts = [part_of(before, part, error) for part, error in zip(SHARDS, errors, strict=True)]
    own = [rule.norms(part, after(rule, part)) for part in parts]
    for number, part in enumerate(parts):
        others = [norms for other, norms in enumerate(own) if other != number]
        yield replace(part, elsewhere={name: float(np.hypot(*(each[name] for each in others))) for name in own[0]})


def after(rule: UpdateRule, before: BeforeStep) -> dict[str, Vector]:
    return {name: terms.total(before.gradient) for name, terms in rule.sums(before).items()}


@pytest.mark.parametrize("name", RULES)
def test_shards_move_as_the_whole_tensor(name: str) -> None:
    rule = RULES[name]
    for seed in range(20):
        whole = drawn(rule, seed)
        if name == "lamb":  # the ratio is that of the moments after the step, which need no other shard
            expected = rule.move(whole, after(rule, whole))
            found = [rule.move(each, after(rule, each)) for each in shards(rule, whole)]
        else:
            (expected,) = after(rule, whole).values()
            found = [value for each in shards(rule, whole) for value in after(rule, each).values()]
        np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-12)


def test_tensors_without_decay_have_no_norms() -> None:
    for rule in RULES.values():
        before = replace(drawn(rule, 0), decays=False)
        assert rule.norms(before, after(rule, before)) == {}


@pytest.mark.parametrize("name", ["lars", "lars without decay"])
@pytest.mark.parametrize("size", [1e-6, 0.03, 0.3, 1.0, 3.0])
def test_no_error_of_a_gradient_changes_lars_by_more_than_its_bound(name: str, size: float) -> None:
    """Of the whole tensor and of its shards: errors of any direction, and those along the gradient, of each shard."""
    rule, random, largest = RULES[name], np.random.default_rng(2), 0.0
    for seed in range(300):
        before = drawn(rule, seed)
        along = random.choice([-1.0, 0.0, 1.0], 3).repeat([2, 7, 1]) * before.gradient
        error = random.choice([1e-9, 1.0]) * random.standard_normal(10) * random.uniform(size=10) + along
        error *= size * np.linalg.norm(before.gradient) / np.linalg.norm(error)
        errors = tuple(float(np.linalg.norm(error[part])) for part in SHARDS)
        largest = max(largest, share(rule, replace(before, error=float(np.linalg.norm(error))), error))
        for each, part in zip(shards(rule, before, errors), SHARDS, strict=True):
            changed = [part_of(replace(before, gradient=before.gradient + error), own) for own in SHARDS]
            largest = max(largest, share(rule, each, error[part], norms_of_others(changed, SHARDS.index(part))))
    assert 0.4 < largest < 1 + 1e-6, largest


def share(rule: UpdateRule, before: BeforeStep, error: Vector, others: float = 0.0) -> float:
    """The change by an error, and by that of the other shards, which have the norm `others` then; of its bound."""
    (terms,) = rule.sums(before).values()
    altered = replace(before, gradient=before.gradient + error, elsewhere={**before.elsewhere, "gradient": others})
    (other,) = rule.sums(altered).values()
    change = np.linalg.norm(other.total(altered.gradient) - terms.total(before.gradient))
    return float(change) / (terms.gain * before.error + terms.error_elsewhere)


def norms_of_others(parts: list[BeforeStep], number: int) -> float:
    return float(np.hypot(*(np.linalg.norm(p.gradient) for other, p in enumerate(parts) if other != number)))
