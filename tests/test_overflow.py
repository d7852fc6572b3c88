"""Loss scaling: an overflow costs its step only, is counted, and is the same on all ranks of a group."""

from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import torch
from state_files import write_state
from test_state import python, stop_after
from tiny import CPU, GRAPH, alone, bits, training, unending

from hpcai import opcount, tensor_file, tensor_tree
from hpcai.clock import Phases
from hpcai.train.loop import Training
from hpcai.train.precision import LossScaler

SCALED = ("fp16", "halffp16")  # by a fused optimiser, and by one that is left out from the host
SHORT = (*SCALED, "bf16", "pure16")


def weights(trained: Training) -> Any:
    return bits(dict(trained.state.module.named_parameters()))


def momenta(trained: Training) -> Any:
    return bits(trained.state.optimiser.state_dict()["state"])


def step(trained: Training, number: int = 0) -> int:
    """One optimiser step on the training's own batch of that number; its samples."""
    ((x, y, _),) = trained.loader([trained.sampler.draw(trained.shard.step_positions(number))])
    trained._step(x, y)
    return len(y)


@pytest.mark.parametrize("precision", SCALED)
def test_an_overflow_skips_the_step_and_halves_the_scale(precision: str) -> None:
    trained = training(alone(), precision=precision)
    scaler = trained.state.scaler
    assert scaler is not None and scaler.scale == LossScaler.FIRST
    scaler.scale.fill_(2.0**60)
    before, samples = (weights(trained), momenta(trained)), 0
    for number in (0, 2, 1):  # the last batch of the epoch is a smaller one
        samples += step(trained, number)
        assert (weights(trained), momenta(trained)) == before
    assert (trained.state.skipped_steps, trained.state.skipped_samples) == (3, samples) == (3, 20)
    assert scaler.scale == 2.0**57 and scaler.successes == 0
    scaler.scale.fill_(2.0**10)
    step(trained)
    assert weights(trained) != before[0]
    assert (trained.state.skipped_steps, scaler.successes) == (3, 1)


@pytest.mark.parametrize("precision", SCALED)
def test_after_an_overflow_training_continues_as_if_without_the_step(precision: str) -> None:
    hit, spared = (training(alone(), precision=precision) for _ in range(2))
    assert hit.state.scaler is not None and spared.state.scaler is not None
    hit.state.scaler.scale.fill_(2.0**60)
    step(hit)
    for trained in (hit, spared):
        assert trained.state.scaler is not None
        trained.state.scaler.scale.fill_(2.0**8)
        for number in (1, 2, 0):
            step(trained, number)
    assert (weights(hit), momenta(hit)) == (weights(spared), momenta(spared))


def test_gradients_of_16_bits_are_unscaled_in_their_type() -> None:
    trained = training(alone(), precision="halffp16")
    parameters = [*trained.state.module.parameters()]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 3.0)
    scaler = trained.state.scaler
    assert scaler is not None and {parameter.dtype for parameter in parameters} == {torch.float16, torch.float32}
    scaler.check(8)
    assert all(bool((parameter.grad == 3.0 / LossScaler.FIRST).all()) for parameter in parameters)
    for spoiled in parameters:  # in either type
        assert spoiled.grad is not None
        spoiled.grad[-1] = float("inf")
        before = weights(trained)
        scaler.check(8)
        scaler.step()
        assert weights(trained) == before
        spoiled.grad.fill_(1.0)


def test_scale_doubles_after_some_steps_without_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LossScaler, "INTERVAL", 3)
    trained = training(alone(), precision="fp16")
    assert trained.state.scaler is not None
    scales = []
    for _ in range(7):
        step(trained)
        scales.append(float(trained.state.scaler.scale) / LossScaler.FIRST)
    assert scales == [1, 1, 2, 2, 2, 4, 4]


@pytest.mark.parametrize("precision", SCALED)
def test_operations_of_skipped_steps_are_not_credited(precision: str) -> None:
    trained = training(alone(), precision=precision)
    assert trained.state.scaler is not None
    trained.state.scaler.scale.fill_(2.0**24)  # some steps overflow, until the scale has fallen
    trained.run(Phases(CPU), unending())
    state, per_sample = trained.state, opcount.count(GRAPH, "model").total
    assert 0 < state.skipped_steps < state.progress.steps
    assert state.progress.operations == per_sample * state.progress.samples
    assert 0 < state.skipped_samples <= 8 * state.skipped_steps
    assert state.scaler is not None and state.scaler.scale == 2.0 ** (24 - state.skipped_steps)


GO_ON = """
import sys
from pathlib import Path
from state_files import read_state, write_state
from tiny import CPU, alone, training, unending
from hpcai.clock import Phases
for precision in sys.argv[2:]:
    trained = training(alone(), precision=precision)
    read_state(trained.state, Path(sys.argv[1], precision))
    trained.run(Phases(CPU), unending())
    write_state(trained.state, Path(sys.argv[1], precision))
"""


@pytest.mark.slow
def test_training_continues_in_a_new_process_bit_by_bit(tmp_path: Path) -> None:
    whole = {}
    for precision in SHORT:
        for where, steps in ((tmp_path / "whole", 0), (tmp_path, 4)):
            trained = training(alone(), precision=precision)
            if trained.state.scaler is not None:
                trained.state.scaler.scale.fill_(2.0**24)
            if steps:
                stop_after(trained, steps)
                write_state(trained.state, where / precision)
            else:
                trained.run(Phases(CPU), unending())
                whole[precision] = trained.state.snapshot()
    python(GO_ON, tmp_path, *SHORT)
    for precision in SHORT:
        found = tensor_tree.join(*tensor_file.read(tmp_path / precision))
        found["generators"] = whole[precision]["generators"]
        assert bits(found) == bits(whole[precision]), precision
    assert all(whole[precision]["scaler"]["skipped_steps"] > 0 for precision in SCALED)


def test_warm_up_does_not_change_the_scaler() -> None:
    trained = training(alone(), precision="fp16")
    assert trained.state.scaler is not None
    trained.state.scaler.scale.fill_(2.0**60)
    before = bits(trained.state.snapshot())
    trained.warm_up()
    assert bits(trained.state.snapshot()) == before


@pytest.mark.parallel(2)
def test_ranks_of_a_group_skip_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.comm.rendezvous import process_group
    from hpcai.train.data_parallel import differs_from_others

    world = MPI.COMM_WORLD
    group = split(world, 1, world.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        for precision in SCALED:
            trained = training(group, samples=20 * group.degree, precision=precision)
            before = weights(trained)
            with monkeypatch.context() as patch:
                if world.rank == world.size - 1:
                    genuine = trained.objective
                    patch.setattr(trained, "objective", lambda *given, genuine=genuine: genuine(*given) * 1e30)
                samples = step(trained)
            assert weights(trained) == before
            assert (trained.state.skipped_steps, trained.state.skipped_samples) == (1, samples)
            trained.run(Phases(CPU), unending())
            assert weights(trained) != before and trained.state.skipped_steps == 1
            assert not differs_from_others(trained.state.module, group)
        pure = training(group, samples=20 * group.degree, precision="pure16")
        pure.run(Phases(CPU), unending())
        assert not differs_from_others(pure.state.module, group)
