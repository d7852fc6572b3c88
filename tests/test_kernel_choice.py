"""KERNELS auto, from measured times: the margin, gradients that are timed together, the whole step."""

from itertools import product

import pytest

from hpcai.kernels.providers import CUSTOM, VENDOR
from hpcai.record.preflight import Backward, Forward, KernelChoice, TimedNormalisation, TimedProduct, WholeStep
from hpcai.record.training_scores import CustomShare
from hpcai.results import kernel_choice as rule
from hpcai.results.kernel_choice import GRADIENTS, MARGIN, MIXED

FORWARD, INPUT, WEIGHT = "forward", *GRADIENTS
ENOUGH, TOO_LITTLE = 1 / (1 + MARGIN) - 1e-9, 1 / (1 + MARGIN) + 1e-3
Seconds = dict[str, float]


def timed(forward: Seconds | None = None, backward: Seconds | None = None) -> tuple[Forward, Backward]:
    """A layer with one second for every pass by each provider, except for the given times."""
    both = dict.fromkeys((VENDOR, MIXED, CUSTOM), 1.0)
    gradients = dict.fromkeys(GRADIENTS, 1.0)
    return Forward(**both | (forward or {})), Backward(**both | gradients | (backward or {}))


def first_layer(**backward: float) -> tuple[Forward, Backward]:
    """A layer whose input needs no gradient."""
    both = dict.fromkeys((VENDOR, MIXED, CUSTOM), 1.0)
    return Forward(**both), Backward(**both | backward)


def chosen(forward: Seconds | None = None, backward: Seconds | None = None) -> list[str]:
    return [*rule.chosen(*timed(forward, backward))]


@pytest.mark.parametrize(("share", "custom"), [(ENOUGH, [FORWARD]), (TOO_LITTLE, []), (2.0, [])])
def test_forward_is_custom_where_it_is_faster_by_the_margin(share: float, custom: list[str]) -> None:
    assert chosen({CUSTOM: share}) == custom


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize(("share", "custom"), [(ENOUGH, True), (TOO_LITTLE, False)])
def test_a_gradient_is_custom_where_the_pass_is_faster_by_the_margin(
    gradient: str, share: float, custom: bool
) -> None:
    assert chosen(backward={gradient: share}) == [gradient] * custom
    both = {INPUT: 0.8, WEIGHT: 0.8, gradient: 0.9, CUSTOM: 0.8 * share}
    assert (gradient in chosen(backward=both)) == custom


def test_both_gradients_are_custom_only_if_each_makes_the_pass_faster() -> None:
    assert chosen(backward={INPUT: 0.9, WEIGHT: 0.9, CUSTOM: 0.8}) == [INPUT, WEIGHT]
    assert chosen(backward={INPUT: 0.79, WEIGHT: 0.9, CUSTOM: 0.8}) == [INPUT]
    assert chosen(backward={INPUT: 2.0, WEIGHT: 2.0, CUSTOM: 0.8}) == [INPUT, WEIGHT]


def test_the_cost_of_the_operator_counts() -> None:
    """Forward alone is faster, but then the vendor's gradients are called from the custom operator."""
    assert chosen({CUSTOM: 0.9}, {MIXED: 1.05}) == [FORWARD]
    assert chosen({CUSTOM: 0.9}, {MIXED: 1.11}) == []
    assert chosen({MIXED: 1.2}, {INPUT: 0.85}) == []


def test_a_first_layer_has_one_gradient() -> None:
    assert rule.gradients(first_layer()[1]) == (WEIGHT,)
    assert rule.chosen(*first_layer(custom=0.5)) == (WEIGHT,)
    assert rule.chosen(*first_layer()) == ()


def test_no_choice_takes_longer_than_the_vendor() -> None:
    """For all combinations of three times each."""
    for mixed, custom, none, one, other, both in product((0.7, 0.96, 1.3), repeat=6):
        found = timed({MIXED: mixed, CUSTOM: custom}, {MIXED: none, INPUT: one, WEIGHT: other, CUSTOM: both})
        assert rule.seconds(*found, rule.chosen(*found)) <= 2.0


@pytest.mark.parametrize(("share", "custom"), [(ENOUGH, True), (TOO_LITTLE, False)])
def test_a_batch_norm_is_custom_where_it_is_faster_by_the_margin(share: float, custom: bool) -> None:
    assert rule.normalised(vendor=1.0, custom=share) is custom


def choice(whole: WholeStep | None) -> KernelChoice:
    """Three layers with two of three directions custom, and a first layer; a batch norm of four custom."""
    (forward, backward), (_, only) = timed(), first_layer()
    products = (
        TimedProduct(
            kernel="gemm", shape="a", layers=3, forward=forward, backward=backward, custom=("forward", "input_gradient")
        ),
        TimedProduct(kernel="gemm", shape="b", layers=1, forward=forward, backward=only, custom=()),
    )
    norms = (
        TimedNormalisation(shape="a", layers=1, vendor=1.0, custom=0.5, chosen=True),
        TimedNormalisation(shape="b", layers=3, vendor=1.0, custom=1.0, chosen=False),
    )
    return KernelChoice(rounds=1, products=products, normalisations=norms, whole=whole)


@pytest.mark.parametrize(
    ("chosen", "custom_step", "kept"),
    [(0.9, 0.8, "custom"), (0.8, 0.9, "chosen"), (1.1, 0.9, "custom"), (0.9, None, "chosen"), (1.0, 1.0, "vendor")],
)
def test_the_kernels_of_the_fastest_step_are_kept(chosen: float, custom_step: float | None, kept: str) -> None:
    found = choice(WholeStep(vendor=1.0, chosen=chosen, custom_step=custom_step))
    assert rule.kept(found) == kept and rule.pays_off(found) == (kept != "vendor")
    if kept == "custom":
        assert rule.custom_share(found) == CustomShare(directions=1, normalisations=1)


def test_shares_are_of_layers_and_zero_if_the_choice_is_not_faster() -> None:
    faster = choice(WholeStep(vendor=1.0, chosen=0.9))
    assert rule.custom_share(faster) == CustomShare(directions=6 / 11, normalisations=1 / 4)
    for whole in (None, WholeStep(vendor=1.0, chosen=1.0), WholeStep(vendor=1.0, chosen=1.1, custom_step=1.0)):
        assert rule.custom_share(choice(whole)) == CustomShare(directions=0, normalisations=0)
    assert rule.custom_share(None) is None
