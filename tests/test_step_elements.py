"""Elements of every step: honest trainings repeat no gradient and move every weight; faults of a tensor are counted."""

from typing import Any

import pytest
import torch
from tiny import CPU, alone, training, unending

from hpcai.clock import Phases
from hpcai.formulas.audits import COPIES, INSIDE, MOST, OUTSIDE, at_once, audits
from hpcai.train.loop import Training
from hpcai.train.precision import LossScaler
from hpcai.update_rules import rule_of

SETTINGS = {
    "DECAY": 5e-4, "MOMENTUM": 0.9, "TRUST": 0.01, "BETA1": 0.9, "BETA2": 0.999, "EPSILON": 0.0,
}  # fmt: skip
OPTIMISERS = ("sgd", "lars", "lamb", "adam", "adamw", "adagrad")


def findings(trained: Training) -> tuple[int, int]:
    """Gradients of earlier steps and tensors that did not move, of the whole training."""
    trained.run(Phases(CPU), unending())
    return trained.checks.findings.stale, trained.checks.findings.still


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16", "pure16", "halffp16"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_an_honest_training_repeats_no_gradient_and_moves(optimiser: str, precision: str) -> None:
    rule = rule_of({**SETTINGS, "OPTIMISER": optimiser})
    assert findings(training(alone(), samples=400, epochs=2, rule=rule, precision=precision)) == (0, 0)


@pytest.mark.parametrize("changes", [
    {"momentum": 0.0}, {"decay": 0.0}, {"learning_rate": 1e-9}, {"schedule": "linear"}, {"learning_rate": 5.0},
    {"samples": 16, "batch": 8},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("precision", ["fp32", "pure16"])
def test_no_recipe_is_mistaken_for_a_fault(changes: dict[str, Any], precision: str) -> None:
    assert findings(training(alone(), **{"samples": 160, "epochs": 3, "precision": precision, **changes})) == (0, 0)


def test_skipped_steps_need_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LossScaler, "FIRST", 2.0**40)
    trained = training(alone(), samples=160, epochs=3, precision="halffp16")
    assert findings(trained) == (0, 0)
    assert trained.state.skipped_steps > 5


def weight_of(trained: Training) -> torch.Tensor:
    return trained.state.module.get_parameter("branch.weight")


@pytest.mark.parametrize("momentum", [0.0, 0.875])
def test_a_tensor_that_stays_as_it_was_is_counted(momentum: float) -> None:
    trained = training(alone(), samples=160, epochs=1, momentum=momentum)
    kept: list[torch.Tensor] = []

    @torch.no_grad()
    def restore(*_: object) -> None:
        weight_of(trained).copy_(kept.pop())

    trained.state.optimiser.register_step_pre_hook(lambda *_: kept.append(weight_of(trained).detach().clone()))
    trained.state.optimiser.register_step_post_hook(restore)
    assert findings(trained) == (0, 1)


def test_a_tensor_with_an_old_gradient_is_counted_in_each_step() -> None:
    trained = training(alone(), samples=160, epochs=1)
    kept: list[torch.Tensor] = []

    def repeat(*_: object) -> None:
        gradient = weight_of(trained).grad
        assert gradient is not None
        kept.append(gradient.clone())
        gradient.copy_(kept[0])

    trained.state.optimiser.register_step_pre_hook(repeat)
    assert findings(trained) == (trained.shard.steps - 1, 0)


def test_elements_are_taken_where_gradients_are_not_0() -> None:
    trained = training(alone(), samples=160, epochs=1)
    weight, seen = weight_of(trained), slice(8, 16)
    mask = torch.zeros(weight.numel())
    mask[seen] = 1
    weight.register_hook(lambda gradient: gradient * mask.as_strided(gradient.shape, gradient.stride()))
    elements = trained.checks._elements
    trained.warm_up()
    run = next(run for each, run in zip(elements._weights, elements._runs, strict=True) if each is weight)
    assert 6 <= run.first <= 10 and run.length == 8


def test_missing_gradients_are_counted() -> None:
    trained = training(alone(), samples=160, epochs=1)
    trained.state.optimiser.register_step_post_hook(lambda *_: setattr(weight_of(trained), "grad", None))
    assert findings(trained) == (trained.shard.steps, 0)


def test_every_epoch_has_an_audited_step_and_more_within_the_shares() -> None:
    assert audits(MOST, 0, (0.0, 0.0, 0.0), 0.0) == 1
    assert audits(MOST, 1, (1.0, 0.5, 0.5), 1.0) == 1  # too expensive, and still one
    assert audits(MOST, 1, (10.0, 1e-3, 1e-2), 10.0) == MOST
    training_seconds, each_inside, each_outside = 10.0, 0.045, 0.01
    count = audits(MOST, 1, (training_seconds, each_inside, each_outside), 10.0)
    assert count == 3 and each_inside * (1 + count) <= INSIDE * 20 < each_inside * (2 + count)
    count = audits(MOST, 1, (training_seconds, 1e-4, 0.4), 10.0)
    assert count == 1 and OUTSIDE * 20 >= 0.4 * 2


def test_copies_of_audited_steps_are_bounded() -> None:
    assert at_once(1) == MOST
    assert at_once(COPIES // 2) == 2
    assert at_once(10 * COPIES) == 1
