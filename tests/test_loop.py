"""The training loop: its steps, rates, samples and end; and that it never waits."""

from collections import Counter
from collections.abc import Callable, Iterator
from math import cos, pi
from operator import methodcaller
from socket import gethostname
from typing import Any

import pytest
import torch
from synchronisation_watch import epochs_watched
from tiny import CPU, GRAPH, RECIPE, alone, bits, training, unending

from hpcai import opcount
from hpcai.clock import Phases
from hpcai.train.loop import Training


def test_an_epoch_never_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with epochs_watched(monkeypatch) as waits:
        training(alone(), epochs=4).run(Phases(CPU), unending())
    assert waits == []


WAITING = (
    *map(methodcaller, ("item", "numpy", "tolist", "cpu")),
    *(float, bool, torch.nonzero, lambda loss: loss.view(1)[loss.view(1) > 0], lambda loss: torch.tensor([1.0])),
)


@pytest.mark.parametrize("wait", WAITING)
def test_a_step_that_waits_is_detected(monkeypatch: pytest.MonkeyPatch, wait: Callable[..., Any]) -> None:
    trained = training(alone(), epochs=4)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        Training._step(trained, x, y)
        wait(trained.state.loss_sum)

    monkeypatch.setattr(trained, "_step", step)
    with epochs_watched(monkeypatch) as waits:
        trained.run(Phases(CPU), unending())
    assert len(waits) >= 4 * trained.shard.steps


def test_the_clock_is_read_at_the_begin_and_the_end_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    phases, log, shown = Phases(CPU), [], []
    for name in ("_epoch", "_close_epoch"):
        method = getattr(Training, name)
        monkeypatch.setattr(
            Training, name, lambda self, *a, name=name, method=method: (log.append(name), method(self, *a))[1]
        )
    monkeypatch.setattr("hpcai.clock.synchronise", lambda device: log.append("synchronise"))
    training(alone(), epochs=2, evaluate_every=1).run(phases, unending(), lambda progress: shown.append(progress.epoch))
    audit = validation = ["synchronise", "synchronise"]
    statistics = [*audit, *validation, *audit]
    steps = [*audit, "synchronise", "_epoch", "synchronise", *audit, "_close_epoch"]
    per_epoch = [*steps, *statistics, *validation, *audit]
    assert log == 2 * per_epoch
    assert sorted(set(shown)) == [0, 1, 2]


def test_rates_are_those_of_the_schedule_at_each_step() -> None:
    trained, rates = training(alone()), []
    trained.state.optimiser.register_step_pre_hook(
        lambda optimiser, *_: rates.append({group["lr"] for group in optimiser.param_groups})
    )
    trained.warm_up()
    rates.clear()
    trained.run(Phases(CPU), unending())
    peak, warmup = 3.0 * 8 / 256, 0.4 * 3
    expected = [peak * (step + 1) / (warmup + 1) for step in range(2)]
    expected += [peak * 0.5 * (1 + cos(pi * (step - warmup) / (9 - warmup))) for step in range(2, 9)]
    assert [len(of_groups) for of_groups in rates] == [1] * 9
    assert [of_groups.pop() for of_groups in rates] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("every", "epochs", "validated"), [(3, 7, [3, 6, 7]), (1, 3, [1, 2, 3]), (5, 3, [3]), (2, 4, [2, 4])]
)
def test_validation_follows_the_requested_epochs_and_the_last(
    every: int, epochs: int, validated: list[int]
) -> None:
    trained, phases = training(alone(), epochs=epochs, evaluate_every=every), Phases(CPU)
    trained.run(phases, unending())
    progress = trained.state.progress
    assert [entry.epoch for entry in progress.curve] == validated
    assert {entry.counted for entry in progress.curve} == {23}
    seconds = [entry.seconds for entry in progress.curve]
    assert seconds == sorted(seconds) and seconds[0] > 0
    assert seconds[-1] == pytest.approx(phases.seconds["training"] + phases.seconds["validation"])
    assert progress.training_seconds == phases.seconds["training"]
    assert progress.validation_seconds == phases.seconds["validation"]
    assert phases.seconds["replay"] > 0
    assert 0 <= progress.data_wait_seconds <= progress.training_seconds


@pytest.mark.parametrize(("samples", "each", "steps"), [(20, 20, 3), (17, 16, 2), (3, 3, 1), (24, 24, 3)])
def test_executed_steps_are_credited(samples: int, each: int, steps: int) -> None:
    trained = training(alone(), samples=samples)
    trained.warm_up()
    trained.run(Phases(CPU), unending())
    progress = trained.state.progress
    assert (progress.epoch, progress.step, progress.steps) == (3, 0, 3 * steps)
    assert progress.samples == 3 * each
    assert progress.operations == 3 * each * opcount.count(GRAPH, "model").total
    assert not any(module._forward_hooks for module in trained.state.module.modules())
    assert trained.state.module.training


def test_each_epoch_trains_on_each_sample_once_in_a_different_order() -> None:
    trained, epochs = training(alone()), []
    indices = trained._indices

    def noted(progress: Any) -> Iterator[Any]:
        epochs.append([])
        for batch in indices(progress):
            epochs[-1] += batch.tolist()
            yield batch

    trained._indices = noted
    trained.run(Phases(CPU), unending())
    assert [Counter(epoch) for epoch in epochs] == [Counter(range(20))] * 3
    assert epochs[0] != epochs[1] != epochs[2] != list(range(20))


def test_a_finished_training_does_not_continue() -> None:
    trained = training(alone())
    trained.run(Phases(CPU), unending())
    before = bits(trained.state.snapshot())
    trained.run(Phases(CPU), unending())
    assert bits(trained.state.snapshot()) == before


def test_training_lowers_the_loss() -> None:
    trained = training(alone(), samples=200, epochs=12, evaluate_every=1, learning_rate=1.0)
    trained.run(Phases(CPU), unending())
    losses = [entry.loss for entry in trained.state.progress.curve]
    assert losses[-1] < 0.9 * losses[0]
    assert trained.state.progress.curve[-1].correct > 2 * 23 / 5


def test_weight_decay_spares_norms_and_biases() -> None:
    idle = training(alone(), learning_rate=0.1, decay=0.0)
    decayed = training(alone(), learning_rate=0.1, decay=5.0)
    for trained in (idle, decayed):
        for parameter in trained.state.module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        trained.state.optimiser.step()
    pairs = zip(idle.state.module.named_parameters(), decayed.state.module.parameters(), strict=True)
    for (name, untouched), changed in pairs:
        shrunk = untouched * (1 - 0.1 * 8 / 256 * 5.0)
        assert torch.allclose(changed, shrunk if untouched.ndim > 1 else untouched, rtol=1e-6, atol=0), name


def test_a_loss_that_is_not_finite_ends_the_training_as_diverged() -> None:
    trained = training(alone(), epochs=7, evaluate_every=3, learning_rate=1e30)
    trained.run(Phases(CPU), unending())
    progress = trained.state.progress
    assert [(entry.epoch, entry.loss) for entry in progress.curve] == [(1, None)]
    assert (progress.epoch, progress.steps) == (1, 3)
    assert progress.operations == 20 * opcount.count(GRAPH, "model").total


def test_a_model_destroyed_by_its_last_step_has_diverged_despite_finite_losses() -> None:
    trained = training(alone(), epochs=7, evaluate_every=2)

    def destroy(*_: Any) -> None:
        if trained.state.progress.steps == 3 * 4 - 1:  # the last step of the fourth epoch
            with torch.no_grad():
                trained.state.module.get_parameter("dense.bias")[1] = float("inf")

    trained.state.optimiser.register_step_post_hook(destroy)
    trained.run(Phases(CPU), unending())
    curve = trained.state.progress.curve
    assert [entry.epoch for entry in curve] == [2, 4]
    assert curve[0].loss is not None and curve[1].loss is None


@pytest.mark.parallel(4)
def test_a_group_with_one_diverged_rank_stops_together_and_others_continue() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group

    world = MPI.COMM_WORLD
    groups = 2 if world.size > 1 else 1
    group = split(world, groups, world.size // groups, "row")
    if group is not None:
        with process_group(group, gethostname(), CPU):
            trained = training(group, samples=20 * group.degree, epochs=3, evaluate_every=3)
            poisoned = group.coordinates.group == 0 and group.coordinates.member == group.degree - 1
            real, last = trained.objective, trained.shard.steps - 1

            def objective(network: Any, x: torch.Tensor, y: torch.Tensor, step: int) -> torch.Tensor:
                loss = real(network, x, y, step)
                return loss * float("nan") if poisoned and step == last else loss

            trained.objective = objective
            trained.run(Phases(CPU), unending())
        progress = trained.state.progress
        ends = [(entry.epoch, entry.loss is None) for entry in progress.curve]
        assert ends == ([(1, True)] if group.coordinates.group == 0 else [(3, False)])
        assert progress.epoch == (1 if group.coordinates.group == 0 else RECIPE.epochs)
        everyones = group.model.allgather(progress.curve)
        assert everyones == [progress.curve] * group.degree
    world.Barrier()
