"""Which kernels compute a layer, by what was timed: the margin, gradients that are timed together, the whole step."""

from itertools import product
from typing import Any

import pytest
from hpcai.result import choice
from hpcai.result.choice import CUSTOM, MARGIN, MIXED, VENDOR

Json = dict[str, Any]
FORWARD, INPUT, WEIGHT = "forward", *choice.GRADIENTS
ENOUGH, TOO_LITTLE = 1 / (1 + MARGIN) - 1e-9, 1 / (1 + MARGIN) + 1e-3


def entry(forward: Json | None = None, backward: Json | None = None) -> Json:
    """A layer of which everything takes a second, whoever computes it, but for what is given."""
    both = dict.fromkeys((VENDOR, MIXED, CUSTOM), 1.0)
    names = dict.fromkeys(choice.GRADIENTS, 1.0)
    return {"layers": 1, "forward": both | (forward or {}), "backward": both | names | (backward or {})}


def first_layer(**backward: float) -> Json:
    """A layer whose input needs no gradient."""
    found = entry(backward=backward)
    for gradient in choice.GRADIENTS:
        del found["backward"][gradient]
    return found


@pytest.mark.parametrize(("share", "ours"), [(ENOUGH, [FORWARD]), (TOO_LITTLE, []), (2.0, [])])
def test_forward_is_ours_where_it_is_faster_by_the_margin(share: float, ours: list[str]) -> None:
    assert choice.chosen(entry({CUSTOM: share})) == ours


@pytest.mark.parametrize("gradient", choice.GRADIENTS)
@pytest.mark.parametrize(("share", "mine"), [(ENOUGH, True), (TOO_LITTLE, False)])
def test_a_gradient_is_ours_where_the_pass_is_faster_by_the_margin(gradient: str, share: float, mine: bool) -> None:
    assert choice.chosen(entry(backward={gradient: share})) == [gradient] * mine
    both = {INPUT: 0.8, WEIGHT: 0.8, gradient: 0.9, CUSTOM: 0.8 * share}
    assert (gradient in choice.chosen(entry(backward=both))) == mine


def test_both_gradients_are_ours_only_if_each_makes_the_pass_faster() -> None:
    assert choice.chosen(entry(backward={INPUT: 0.9, WEIGHT: 0.9, CUSTOM: 0.8})) == [INPUT, WEIGHT]
    assert choice.chosen(entry(backward={INPUT: 0.79, WEIGHT: 0.9, CUSTOM: 0.8})) == [INPUT]
    assert choice.chosen(entry(backward={INPUT: 2.0, WEIGHT: 2.0, CUSTOM: 0.8})) == [INPUT, WEIGHT]


def test_what_the_operator_costs_counts() -> None:
    """Forward alone is faster, but then the vendor's gradients are called from our operator."""
    assert choice.chosen(entry({CUSTOM: 0.9}, {MIXED: 1.05})) == [FORWARD]
    assert choice.chosen(entry({CUSTOM: 0.9}, {MIXED: 1.11})) == []
    assert choice.chosen(entry({MIXED: 1.2}, {INPUT: 0.85})) == []


def test_a_first_layer_has_one_gradient() -> None:
    assert choice.wanted(first_layer()) == (WEIGHT,)
    assert choice.chosen(first_layer(custom=0.5)) == [WEIGHT]
    assert choice.chosen(first_layer()) == []


def test_no_choice_takes_longer_than_the_vendor() -> None:
    """Of all timings of a few sizes each."""
    for mixed, custom, none, one, other, both in product((0.7, 0.96, 1.3), repeat=6):
        found = entry({MIXED: mixed, CUSTOM: custom}, {MIXED: none, INPUT: one, WEIGHT: other, CUSTOM: both})
        assert choice.seconds(found, frozenset(choice.chosen(found))) <= 2.0


@pytest.mark.parametrize(("share", "ours"), [(ENOUGH, True), (TOO_LITTLE, False)])
def test_a_batch_norm_is_ours_where_it_is_faster_by_the_margin(share: float, ours: bool) -> None:
    assert choice.normalised({VENDOR: 1.0, CUSTOM: share}) is ours


def test_shares_are_of_the_layers_that_have_a_shape_and_none_where_it_does_not_pay_off() -> None:
    products = [{**entry(), "layers": 3, "ours": [FORWARD, INPUT]}, {**first_layer(), "ours": []}]
    norms = [{"layers": 1, "ours": True}, {"layers": 3, "ours": False}]
    found = {"products": products, "normalisations": norms, "whole": {VENDOR: 1.0, "chosen": 0.9}}
    assert choice.ours({"choice": found}) == {"kernels_ours": {"directions": 6 / 11, "normalisations": 1 / 4}}
    for whole in (None, {VENDOR: 1.0, "chosen": 1.0}):
        nothing = choice.ours({"choice": {**found, "whole": whole}})
        assert nothing == {"kernels_ours": {"directions": 0, "normalisations": 0}}
    assert choice.ours({}) == {}
