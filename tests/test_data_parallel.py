"""Synchronous data parallelism: Q ranks train as one rank that runs the Q micro-batches in sequence.

The module's outputs and each micro-batch's gradient are computed twice by the same operations on the same numbers, in
the group and in the sequence. What differs is the order in which the Q gradients are added, and the fused optimiser.
"""

from copy import deepcopy
from socket import gethostname
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from hpcai.comm.grid import Group
    from hpcai.train.loop import Training

UNIT = 2.0**-24
Parameters = dict[str, torch.Tensor]


def parameters(training: "Training") -> Parameters:
    return {name: value.detach().clone() for name, value in training.state.module.named_parameters()}


class History:
    """A training's parameters and rates, step by step: after[s] is the result of step s from after[s - 1]."""

    def __init__(self, training: "Training") -> None:
        self.after = [parameters(training)]
        self.rates: list[float] = []
        self.statistics: list[torch.Tensor] = []
        self.training = training
        training.state.optimiser.register_step_post_hook(self._note)

    def _note(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        self.after.append(parameters(self.training))
        self.rates.append(optimiser.param_groups[0]["lr"])
        buffers = self.training.state.module.buffers()
        self.statistics = [buffer.clone() for buffer in buffers if buffer.is_floating_point()]


def micro_batches(training: "Training", degree: int) -> list[list[Any]]:
    """The batches of each rank of the group, step by step."""
    from tiny import SEED

    from hpcai.data.order import EpochOrder, Shard, training_indices

    ranks = []
    for rank in range(degree):
        shard = Shard(training.shard.n, rank, degree, training.recipe.batch)
        orders = [EpochOrder(shard.n, SEED, epoch) for epoch in range(training.recipe.epochs)]
        indices = [i for order in orders for i in training_indices(shard, order, training.sampler)]
        ranks.append(list(training.loader(indices)))
    return [list(step) for step in zip(*ranks, strict=True)]


def gradients(module: torch.nn.Module, at: Parameters, batch: Any, smoothing: float) -> Parameters:
    """Gradient of one micro-batch, normalised by its own statistics."""
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(at[name])
    module.train()
    module.zero_grad()
    cross_entropy(module(batch[0]), batch[1], label_smoothing=smoothing).backward()
    return {name: value.grad.double() for name, value in module.named_parameters()}


def worst(history: History, steps: list[list[Any]], fault: str = "") -> float:
    """Largest ratio of the difference between the group's step and the sequence's to the limit from rounding.

    A step: v' = m v + (g + d w), w' = w - r v', where g is the mean of Q gradients. From the same w the group rounds
    once in dividing and Q - 1 times in adding them: Q u mean|g| to first order. The optimiser's operations on v add
    less than 4 u (|m v| + |g| + |d w|). v' keeps these errors, the next step the part m of them, and so on: `carried`
    adds them up, as the sequence carries its v along in float64. w' is rounded once more: u |w'|. All times 2, for the
    terms of second order.
    """
    training, recipe, rule = history.training, history.training.recipe, history.training.recipe.rule
    module, momentum, carried = deepcopy(training.state.module), {}, {}
    degree, ratio = recipe.degree, 0.0
    for step, batches in enumerate(steps):
        before, after = history.after[step], history.after[step + 1]
        used = batches[:-1] if fault == "missing rank" else batches
        parts = [gradients(module, before, batch, recipe.smoothing) for batch in used]
        rate = history.rates[step] / (degree * recipe.batch / 256 if fault == "unscaled rate" else 1)
        for name, w in before.items():
            divisor = 1 if fault == "sum" else degree
            g = sum(part[name] for part in parts) / divisor
            decay = rule.decay if w.ndim > 1 else 0.0
            v = rule.momentum * momentum.get(name, 0.0) + g + decay * w.double()
            error = (degree + 4) * UNIT * sum(part[name].abs() for part in parts) / degree
            error += 4 * UNIT * (rule.momentum * momentum.get(name, torch.zeros(1)).abs() + decay * w.double().abs())
            carried[name] = rule.momentum * carried.get(name, 0.0) + error
            momentum[name] = v
            expected = w.double() - rate * v
            allowed = 2 * (rate * carried[name] + UNIT * expected.abs()) + 1e-30
            ratio = max(ratio, float(((after[name].double() - expected).abs() / allowed).max()))
    return ratio


def in_group(degree: int) -> "Group | None":
    from mpi4py import MPI

    from hpcai.comm.grid import split

    return split(MPI.COMM_WORLD, 1, degree, "row")


@pytest.mark.slow
@pytest.mark.parallel(3)
def test_q_ranks_train_as_one_rank_that_runs_their_batches_in_sequence() -> None:
    from mpi4py import MPI
    from tiny import CPU, unending
    from tiny import training as tiny_training

    from hpcai.clock import Phases
    from hpcai.comm.rendezvous import process_group

    group = in_group(MPI.COMM_WORLD.size)
    assert group is not None
    degree = group.degree
    with process_group(group, gethostname(), CPU):
        # 20 samples a rank and one left over: steps of 8, 8 and 4
        training = tiny_training(group, samples=20 * degree + degree // 2)
        training.warm_up()
        history = History(training)
        training.run(Phases(CPU), unending())
    steps = micro_batches(training, degree)
    assert [len(batch[1]) for batch in steps[2]] == [4] * degree and len(steps) == 9 == len(history.rates)
    assert worst(history, steps) <= 1
    assert worst(history, steps, "unscaled rate") > 1000
    if degree > 1:
        assert worst(history, steps, "sum") > 1000
        assert worst(history, steps, "missing rank") > 1000
    _check_statistics(history, group)
    _check_loss(history, steps)


def _check_statistics(history: History, group: "Group") -> None:
    """After the last validation: the mean over the ranks' values, to the rounding of Q additions and a division."""
    everyones = group.model.allgather([part.double().numpy() for part in history.statistics])
    buffers = [buffer for buffer in history.training.state.module.buffers() if buffer.is_floating_point()]
    assert len(buffers) == 4
    for index, buffer in enumerate(buffers):
        of_ranks = np.stack([parts[index] for parts in everyones])
        allowed = (group.degree + 1) * UNIT * np.abs(of_ranks).mean(0)
        assert (np.abs(buffer.double().numpy() - of_ranks.mean(0)) <= allowed).all()
        if group.degree > 1:
            assert (np.abs(of_ranks[0] - of_ranks.mean(0)) > 100 * allowed).any()


def _check_loss(history: History, steps: list[list[Any]]) -> None:
    """The loss of an epoch is the mean over its steps and ranks, of the parameters before each step."""
    training, smoothing = history.training, history.training.recipe.smoothing
    module = deepcopy(training.state.module)
    losses = []
    for before, batches in zip(history.after, steps, strict=False):
        module.load_state_dict(before, strict=False)
        with torch.no_grad():
            losses.append([float(cross_entropy(module(b[0]), b[1], label_smoothing=smoothing)) for b in batches])
    curve = training.state.progress.curve
    assert [entry.epoch for entry in curve] == [2, 3]
    for entry in curve:
        epoch = slice(3 * entry.epoch - 3, 3 * entry.epoch)
        assert entry.loss == pytest.approx(np.mean(losses[epoch]), rel=1e-6)


@pytest.mark.parallel(3)
def test_faulty_replicas_and_sums_are_detected() -> None:
    from mpi4py import MPI
    from tiny import CPU, GRAPH, SEED

    from hpcai.comm.rendezvous import process_group
    from hpcai.models.module import build

    size = MPI.COMM_WORLD.size
    for degree in sorted({1, 2, size} & set(range(1, size + 1))):
        group = in_group(degree)
        if group is not None:
            with process_group(group, gethostname(), CPU):
                module = build(GRAPH, SEED)
                _check_one_bit(module, group)
                _check_average(module, group)
                _check_sums(group)
            group.free()


def _check_one_bit(module: torch.nn.Module, group: "Group") -> None:
    """The last bit of one weight, then of one running mean, of the group's last rank."""
    from hpcai.train.data_parallel import differs_from_others

    last = group.coordinates.member == group.degree - 1 > 0
    for tensor in (module.get_parameter("dense.weight"), module.get_buffer("stem_norm.running_mean")):
        assert not differs_from_others(module, group)
        with torch.no_grad():
            kept = tensor.flatten()[-1].item()
            if last:
                tensor.view(-1)[-1] = float(np.nextafter(np.float32(kept), np.float32(9)))
            assert differs_from_others(module, group) == last
            tensor.view(-1)[-1] = kept
    assert not differs_from_others(module, group)


def _check_average(module: torch.nn.Module, group: "Group") -> None:
    """Integers whose average over the group is an integer: exact, and nothing else has changed."""
    from hpcai.train.data_parallel import average_statistics

    before = {name: value.clone() for name, value in module.named_parameters()}
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    for index, buffer in enumerate(buffers):
        buffer.copy_(torch.arange(buffer.numel()) * group.degree + 2 * group.coordinates.member + 100 * index)
    average_statistics(module, group)
    for index, buffer in enumerate(buffers):
        expected = torch.arange(buffer.numel()) * group.degree + (group.degree - 1) + 100 * index
        assert torch.equal(buffer, expected.float())
    assert all(torch.equal(value, before[name]) for name, value in module.named_parameters())


def _check_sums(group: "Group") -> None:
    """No sum is wrong, until one rank is lost or repeated, or one element is, in the summing function."""
    from tiny import CPU, communication

    from hpcai.comm.links import TorchLink
    from hpcai.train.data_parallel import wrong_sums

    averaging = communication(group)
    assert [wrong_sums(group, CPU, averaging, count) for count in (1, 7, 5000)] == [0, 0, 0]
    real = TorchLink.start_all_reduce

    def altered(change: Any) -> Any:
        """The result of the reduction is changed in place."""
        return lambda self, vector: real(self, vector).then(lambda done: (change(vector), [vector])[1])

    faults = {
        "not summed": lambda self, vector: real(self, vector.clone()).then(lambda done: [vector]),
        "averaged": altered(lambda vector: vector.div_(group.degree)),
        "one rank twice": lambda self, vector: real(self, vector.mul_(1 + (group.coordinates.member == 0))),
        "one rank missing": lambda self, vector: real(self, vector.mul_(group.coordinates.member > 0)),
        "one element": altered(lambda vector: vector[3].add_(1)),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, fault in faults.items():
            patch.setattr(TorchLink, "start_all_reduce", fault)
            expected = 1 if name == "one element" else 300
            assert wrong_sums(group, CPU, averaging, 300) == (expected if group.degree > 1 else 0), name
        patch.setattr(TorchLink, "start_all_reduce", altered(lambda vector: vector.copy_(vector.bfloat16())))
        assert (wrong_sums(group, CPU, averaging, 300) > 0) == (group.degree > 1)
