"""The proofs inside a run: clean trainings are far within the limits, faults of every kind far outside."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import CPU, alone, training, unending

from hpcai.clock import Phases
from hpcai.data.audit_draws import drawn_steps
from hpcai.formulas.audits import MOST
from hpcai.record.check_declarations import TERM_LOST
from hpcai.train.loop import Training
from hpcai.train.objective import Classification
from hpcai.train.precision import LossScaler
from hpcai.train.replay import rounding_allowance
from hpcai.train.training_checks import Findings

Tensors = list[torch.Tensor]


def counts(found: Findings) -> set[str]:
    """The names of the counts that are not 0, but for the number of audited steps."""
    return {name for name, value in vars(found).items() if isinstance(value, int) and value} - {"replayed"}


def ran(trained: Training) -> Findings:
    """The findings of the whole training."""
    trained.warm_up()
    trained.run(Phases(CPU), unending())
    trained.checks.check_weights()
    return trained.checks.findings


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"momentum": 0.0},
        {"decay": 0.0, "schedule": "linear"},
        {"learning_rate": 1e-6, "schedule": "constant"},
        {"sampling": "poisson", "samples": 150},
        {"samples": 17, "batch": 4},
    ],
    ids=str,
)
def test_a_clean_training_is_far_within_the_limits(changes: dict[str, Any]) -> None:
    found = ran(training(alone(), epochs=6, **changes))
    assert 6 <= found.replayed <= 6 * MOST
    assert counts(found) == set(), found
    assert found.deviation[0] < 0.2
    assert found.lost[0] < 0.1 * TERM_LOST
    assert found.deviation[1].startswith("model 0, epoch ")


@pytest.mark.parametrize("precision", ["bf16", "fp16", "pure16", "halffp16"])
def test_a_clean_training_in_16_bits_is_far_within_the_limits(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LossScaler, "FIRST", 2.0**30)  # so that many steps are skipped, audited ones as well
    trained = training(alone(), samples=160, epochs=6, precision=precision)
    found = ran(trained)
    assert (trained.state.skipped_steps > 5) == (precision in ("fp16", "halffp16"))
    assert 6 <= found.replayed <= 6 * MOST
    assert counts(found) == set(), found
    assert found.deviation[0] < 0.2
    assert found.lost[0] < 0.2 * TERM_LOST


@pytest.mark.parametrize("scale", [2.0**10, 2.0**40], ids=["without overflow", "with overflow"])
@pytest.mark.parametrize("precision", ["fp16", "halffp16"])
def test_a_step_is_skipped_iff_it_overflows(monkeypatch: pytest.MonkeyPatch, precision: str, scale: float) -> None:
    monkeypatch.setattr(LossScaler, "FIRST", scale)
    trained = training(alone(), samples=160, epochs=1, precision=precision)
    scaler = trained.state.scaler
    assert scaler is not None

    def check(samples: int) -> None:
        LossScaler.check(scaler, samples)
        found = scaler._overflow.clone()
        scaler._overflow.fill_(1 - found)
        scaler.skipped_steps += 1 - 2 * found

    scaler.check = check  # type: ignore[method-assign]
    trained.run(Phases(CPU), unending())
    assert trained.checks.findings.deviation[0] > 3


def test_the_audit_does_not_affect_training_or_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    audited, plain = training(alone()), training(alone())
    for name in ("begin", "close", "before", "after", "note", "start", "judge"):
        monkeypatch.setattr(plain.checks, name, lambda *_: None)
    for trained in (audited, plain):
        trained.run(Phases(CPU), unending())
    assert audited.checks.findings.replayed >= 3
    assert not plain.checks.findings.replayed
    assert audited.state.progress.operations == plain.state.progress.operations
    states = [trained.state.module.state_dict() for trained in (audited, plain)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize(
    ("precision", "kernels", "compiled", "share"),
    [
        ("fp32", "vendor", False, 1 / 16),
        ("fp32", "custom", False, 1 / 4),
        ("fp32", "auto", False, 1 / 4),
        ("fp32", "file:own.py", False, 1 / 4),
        ("int8", "vendor", False, 1 / 4),
        ("int8", "custom", False, 1 / 4),
        ("bf16", "vendor", True, 1),
    ],
)
def test_only_steps_repeated_by_other_kernels_may_differ_by_more(
    precision: str, kernels: str, compiled: bool, share: float
) -> None:
    assert rounding_allowance(precision, kernels, compiled) == share


def test_the_audited_steps_are_spread_over_the_epoch() -> None:
    steps = [step for epoch in range(100) for step in drawn_steps(1, range(10), entropy=7, group=0, epoch=epoch)]
    assert set(steps) == set(range(10))
    assert max(Counter(steps).values()) < 25


def test_the_audited_steps_come_from_new_entropy_in_each_training() -> None:
    trained = [training(alone(), samples=160, epochs=1) for _ in range(2)]
    for each in trained:
        each.checks.audited.entropy = 0  # not drawn yet
        each.run(Phases(CPU), unending())
    assert trained[0].checks.audited.entropy != trained[1].checks.audited.entropy
    for each in trained:
        steps = [step for _, step in each.checks.audited.done]
        assert steps == drawn_steps(1, range(each.shard.steps), each.checks.audited.entropy, 0, 0)


# --- faults of a step


def gradients(trained: Training, spoil: Callable[[Tensors], object]) -> None:
    """The gradients are altered by `spoil` before each step."""

    def hook(*_: object) -> None:
        spoil([parameter.grad for parameter in trained.state.module.parameters()])

    trained.state.optimiser.register_step_pre_hook(hook)


def options(trained: Training, **changes: float) -> None:
    """The optimiser has another option, a factor of its own."""
    for group in trained.state.optimiser.param_groups:
        for name, factor in changes.items():
            group[name] *= factor


def stale_forward(trained: Training) -> None:
    """Each gradient is that at the weights of the previous step."""
    module = trained.state.module
    old = [[p.detach().clone() for p in module.parameters()]]

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        now = [p.detach().clone() for p in module.parameters()]
        set_weights(trained, old.pop())
        old.append(now)
        trained.objective(module, x, y, 0).backward()
        set_weights(trained, now)
        trained.state.optimiser.step()
        trained.state.optimiser.zero_grad(set_to_none=True)

    trained._step = step


@torch.no_grad()
def set_weights(trained: Training, values: Tensors) -> None:
    for parameter, value in zip(trained.state.module.parameters(), values, strict=True):
        parameter.copy_(value)


def rate(trained: Training, factor: float) -> None:
    genuine = trained._rate
    trained._rate = lambda step: factor * genuine(step)


def one_weight(trained: Training) -> None:
    """One element of a layer is not updated."""
    element = trained.state.module.get_parameter("dense.weight").detach().view(-1)[:1]
    kept = element.clone()

    @torch.no_grad()
    def hook(*_: object) -> None:
        element.copy_(kept)

    trained.state.optimiser.register_step_post_hook(hook)


FAULTS: dict[str, Callable[[Training], object]] = {
    "layer's gradient zeroed": lambda t: gradients(t, lambda g: g[3].zero_()),
    "smallest tensor's gradient zeroed": lambda t: gradients(t, lambda g: g[1].zero_()),
    "gradients doubled": lambda t: gradients(t, lambda g: torch._foreach_mul_(g, 2)),
    "gradients by a third too small": lambda t: gradients(t, lambda g: torch._foreach_mul_(g, 0.67)),
    "all gradients lost": lambda t: gradients(t, torch._foreach_zero_),
    "rate 1 % too large": lambda t: rate(t, 1.01),
    "rate 0.1 % too small": lambda t: rate(t, 0.999),
    "momentum forgotten": lambda t: options(t, momentum=0.0),
    "momentum 10 % too large": lambda t: options(t, momentum=1.1),
    "decay forgotten": lambda t: options(t, weight_decay=0.0),
    "decay doubled": lambda t: options(t, weight_decay=2.0),
    "stale forward": stale_forward,
    "no update": lambda t: setattr(t.state.optimiser, "step", lambda: None),
    "update not by the optimiser": one_weight,
    "no label smoothing": lambda t: setattr(t, "objective", Classification(0.0)),
    "half a batch": lambda t: setattr(t, "_step", lambda x, y: Training._step(t, x[::2], y[::2])),
    "another batch": lambda t: setattr(t, "_step", lambda x, y: Training._step(t, x.flip(0), y)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_step_is_far_outside_the_limits(fault: str) -> None:
    trained = training(alone(), samples=160, epochs=4)
    FAULTS[fault](trained)
    trained.run(Phases(CPU), unending())
    found = trained.checks.findings
    assert max(found.deviation[0], found.lost[0] / TERM_LOST) > 3
    assert (found.wrong_epochs, found.changed) == (0, 0)
