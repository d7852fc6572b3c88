"""Weights, statistics and momentum that change outside of steps are found, by a single bit."""

import pytest
import torch
from tiny import CPU, alone, training, unending

from hpcai.clock import Phases
from hpcai.train.loop import Training


def flipped(trained: Training, bit: int, tensor: torch.Tensor | None = None) -> None:
    """One bit of the last element of a layer is flipped."""
    weight = trained.state.module.get_parameter("branch.weight").detach() if tensor is None else tensor
    weight.view(torch.int32)[-1, -1, -1, -1] ^= torch.tensor(1 << bit if bit < 31 else -(1 << 31), dtype=torch.int32)


@pytest.mark.parametrize("bit", [0, 13, 30, 31])
@pytest.mark.parametrize("when", ["in a validation", "after the last one", "in the warm-up"])
def test_one_bit_that_flips_outside_of_steps_is_detected(monkeypatch: pytest.MonkeyPatch, bit: int, when: str) -> None:
    trained = training(alone(), epochs=2, evaluate_every=1)
    if when == "in the warm-up":
        monkeypatch.setattr(trained.validation, "warm_up", lambda *_: flipped(trained, bit))
        monkeypatch.setattr(trained.state, "restore", lambda *_: None)
    elif when == "in a validation":
        validate = trained.validation.run
        monkeypatch.setattr(trained.validation, "run", lambda *a: (flipped(trained, bit), validate(*a))[1])
    trained.warm_up()
    trained.run(Phases(CPU), unending())
    if when == "after the last one":
        flipped(trained, bit)
    assert trained.checks.measured().changed_ranks == (2 if when == "in a validation" else 1)


def test_one_bit_of_a_velocity_is_detected() -> None:
    trained = training(alone(), epochs=1)
    trained.run(Phases(CPU), unending())
    parameter = trained.state.module.get_parameter("branch.weight")
    flipped(trained, 3, trained.state.optimiser.state[parameter]["momentum_buffer"])
    assert trained.checks.measured().changed_ranks == 1


def test_a_running_statistic_changed_outside_of_steps_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = training(alone(), epochs=2, evaluate_every=1)
    mean = trained.state.module.get_buffer("stem_norm.running_mean")
    validate = trained.validation.run
    monkeypatch.setattr(trained.validation, "run", lambda *a: (mean.mul_(1.001), validate(*a))[1])
    trained.run(Phases(CPU), unending())
    assert trained.checks.measured().changed_ranks == 2


@pytest.mark.parallel(4)
def test_models_with_the_same_last_weights_are_counted() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split
    from hpcai.train.judged_weights import repeated_models

    group = split(MPI.COMM_WORLD, 4, 1, "row")
    assert group is not None
    of_rank = [[[1, 2], [2, 1], [1, 2], [2, 1]], [[1, 2], [1, 2], [3, 3], [3, 3]], [[1, 2]] * 4]
    found = [repeated_models(torch.tensor(values[group.coordinates.group]), group) for values in of_rank]
    assert found == [0, 2, 4]
    pairs = split(MPI.COMM_WORLD, 2, 2, "row")
    assert pairs is not None
    own = [7, pairs.coordinates.member]
    assert repeated_models(torch.tensor(own), pairs) == 2
    own[0] += pairs.coordinates.group * pairs.coordinates.member  # one rank of a model differs
    assert repeated_models(torch.tensor(own), pairs) == 0
    whole = split(MPI.COMM_WORLD, 1, 4, "row")
    assert whole is not None and repeated_models(torch.tensor(own), whole) is None
    for each in (group, pairs, whole):
        each.free()
