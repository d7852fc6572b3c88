"""The real program with a fault in each test of its sweep: faulty.py FAULT,FAULT,... [arguments of bench.py].

One fault a test, in the order of the tests; `none` leaves a test alone.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from mpi4py import MPI
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from hpcai.comm.grid import Group
from hpcai.data.loader import Loader
from hpcai.driver import main
from hpcai.train import bagging, evaluate, loop
from hpcai.train.evaluate import Validation
from hpcai.train.loop import Training
from hpcai.workloads import ensemble

Fault = AbstractContextManager[Any]
RANK = MPI.COMM_WORLD.rank
WRONG_RANK = MPI.COMM_WORLD.size - 1
WRONG_STEP = 1


def replaced(owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> Fault:
    """`owner.name` is what `make` makes of the genuine one, for as long as the fault lasts."""
    return patch.object(owner, name, make(getattr(owner, name)))


# --- the all-reduce


def contribution_dropped() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        return lambda tensor: genuine(tensor.zero_() if RANK == WRONG_RANK else tensor)

    return replaced(torch.distributed, "all_reduce", make)


def _element_lost(payload: int) -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        def all_reduce(tensor: torch.Tensor) -> None:
            genuine(tensor)
            if RANK == WRONG_RANK and len(tensor) > 10_000:  # the statistics of the test's network are fewer
                tensor[payload] = 0

        return all_reduce

    return replaced(torch.distributed, "all_reduce", make)


def first_element_lost() -> Fault:
    return _element_lost(0)


def last_element_lost() -> Fault:
    return _element_lost(-1)


class WrongSum(MPI.Intracomm):
    """A communicator whose large sums have one wrong element, on one rank."""

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:  # noqa: N802, MPI's name
        super().Allreduce(sendbuf, recvbuf, op)
        if RANK == WRONG_RANK and len(recvbuf) > 100:
            recvbuf[17] += 1


def mpi_sum_wrong() -> Fault:
    def make(genuine: Callable[..., Group]) -> Any:
        def split(*arguments: Any) -> Group:
            group = genuine(*arguments)
            return replace(group, active=WrongSum(group.active))

        return split

    return replaced(ensemble, "split", make)


# --- the parameters of a group


def parameter_off_by_one_bit() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def run(self: Training, *arguments: Any) -> None:
            genuine(self, *arguments)
            element = next(self.state.module.parameters()).detach().flatten()[:1]
            if RANK == WRONG_RANK:
                element.copy_(torch.nextafter(element, torch.tensor(np.inf)))

        return run

    return replaced(Training, "run", make)


def gradients_not_averaged() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def construct(self: DistributedDataParallel, *arguments: Any, **keywords: Any) -> None:
            genuine(self, *arguments, **keywords)
            self.require_backward_grad_sync = False

        return construct

    return replaced(DistributedDataParallel, "__init__", make)


def statistics_not_averaged() -> Fault:
    return patch.object(loop, "average_statistics", lambda module, group: None)


# --- what is credited


def _in_wrong_step(step: Callable[..., None]) -> Fault:
    """One step of the timed region is done by `step` instead, which is given the genuine one first."""

    def make(genuine: Callable[..., None]) -> Any:
        def either(self: Training, x: torch.Tensor, y: torch.Tensor) -> None:
            if self.state.progress.steps == WRONG_STEP:
                step(genuine, self, x, y)
            else:
                genuine(self, x, y)

        return either

    return replaced(Training, "_step", make)


def step_left_out() -> Fault:
    return _in_wrong_step(lambda genuine, training, x, y: None)


def step_left_out_by_one_model() -> Fault:
    def maybe(genuine: Callable[..., None], training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        if RANK != WRONG_RANK:
            genuine(training, x, y)

    return _in_wrong_step(maybe)


def step_without_backward() -> Fault:
    def forward(genuine: Callable[..., None], training: Training, x: torch.Tensor, y: torch.Tensor) -> None:
        functional.cross_entropy(training.replica(x), y)

    return _in_wrong_step(forward)


def step_on_half_a_batch() -> Fault:
    return _in_wrong_step(lambda genuine, training, x, y: genuine(training, x[::2], y[::2]))


def last_batch_credited_in_full() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def epoch(self: Training) -> None:
            genuine(self)
            self.state.progress.samples += -self.shard.samples % self.shard.batch

        return epoch

    return replaced(Training, "_epoch", make)


def layer_skipped() -> Fault:
    def make(genuine: Callable[..., torch.nn.Module]) -> Any:
        def build(*arguments: Any) -> torch.nn.Module:
            network = genuine(*arguments)
            convolutions = dict(network.named_children()).items()
            name = next(
                name
                for name, part in convolutions
                if isinstance(part, torch.nn.Conv2d) and part.in_channels == part.out_channels
            )
            setattr(network, name, torch.nn.Identity())
            return network

        return build

    return replaced(ensemble, "build", make)


# --- the loss


def model_diverges() -> Fault:
    def make(genuine: Callable[..., float]) -> Any:
        return lambda self, step: 1e30 if RANK == WRONG_RANK else genuine(self, step)

    return replaced(Training, "_rate", make)


# --- the validation


def _asked(where: Any, change: Callable[[list[Any]], list[Any]]) -> Fault:
    return replaced(where, "validation_indices", lambda genuine: lambda shard: iter(change(list(genuine(shard)))))


def _first_twice(batches: list[Any]) -> list[Any]:
    first = batches[0].copy()
    first[1] = first[0]
    return [first, *batches[1:]]


def sample_judged_twice() -> Fault:
    return _asked(evaluate, _first_twice)


def batch_not_asked_for() -> Fault:
    return _asked(evaluate, lambda batches: batches[1:])


def sample_judged_twice_by_the_ensemble() -> Fault:
    return _asked(bagging, _first_twice)


def batch_not_judged_by_the_ensemble() -> Fault:
    return _asked(bagging, lambda batches: batches[:-1])


def _loaded(change: Callable[[Iterator[Any]], Iterator[Any]]) -> Fault:
    """The validation's loader gives what `change` makes of its batches."""

    def make(genuine: Callable[..., None]) -> Any:
        def construct(self: Validation, loader: Loader, *arguments: Any) -> None:
            genuine(self, lambda indices: change(loader(indices)), *arguments)

        return construct

    return replaced(Validation, "__init__", make)


def batch_lost() -> Fault:
    def change(batches: Iterator[Any]) -> Iterator[Any]:
        next(batches)
        return batches

    return _loaded(change)


# --- the provider's products


def _product(spoil: Callable[[torch.Tensor], torch.Tensor]) -> Fault:
    return replaced(functional, "conv2d", lambda genuine: lambda *arguments: spoil(genuine(*arguments)))


def _first_element(like: torch.Tensor) -> torch.Tensor:
    only = torch.zeros_like(like)
    only[(0,) * like.ndim] = 1
    return only


def element_of_product_wrong() -> Fault:
    return _product(lambda y: y + 1e-4 * _first_element(y))


def product_wrong() -> Fault:
    return _product(lambda y: 1.01 * y)


def product_not_a_number() -> Fault:
    return _product(lambda y: y + torch.nan * _first_element(y))


class FirstGradientLost(torch.autograd.Function):
    """The identity, whose gradient lacks one element."""

    @staticmethod
    def forward(context: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (1 - _first_element(gradient))


def element_of_weight_gradient_lost() -> Fault:
    def make(genuine: Callable[..., torch.Tensor]) -> Any:
        return lambda x, w, *rest: genuine(x, FirstGradientLost.apply(w), *rest)

    return replaced(functional, "conv2d", make)


# --- the ensemble


class SameModel:
    """Stands for the module `ensemble`: both models get the seed and the samples of the first."""

    def __enter__(self) -> None:
        seeds, samplers = ensemble.seed_of, ensemble.sampler
        self.patches = patch.multiple(
            ensemble,
            seed_of=lambda seed, purpose, member: seeds(seed, purpose, 0),
            sampler=lambda kind, samples, seed, member, models: samplers(kind, samples, seed, 0, models),
        )
        self.patches.start()

    def __exit__(self, *_: object) -> None:
        self.patches.stop()


def models_identical() -> Fault:
    return SameModel()


def none() -> Fault:
    return nullcontext()


def plant(faults: list[str]) -> None:
    """From now on, test i of the sweep (from 1) runs with fault i - 1."""

    def make(genuine: Callable[..., Any]) -> Any:
        def run(case: Any, *arguments: Any) -> Any:
            with globals()[faults[case.index - 1]]():
                return genuine(case, *arguments)

        return run

    replaced(ensemble, "run", make).__enter__()


if __name__ == "__main__":
    plant(sys.argv[1].split(","))
    sys.exit(main(sys.argv[2:]))
