"""Faults in the training of a group of ranks, and in its credit."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from mpi4py import MPI
from planting import RANK, WRONG_RANK, WRONG_STEP, Fault, replaced
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from hpcai.comm.grid import Group
from hpcai.comm.links import TorchLink
from hpcai.data.bootstrap import Sampler, Whole
from hpcai.train import loop
from hpcai.train.loop import Training
from hpcai.training import assembly, groups

# --- the all-reduce


def contribution_dropped() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        return lambda self, vector: genuine(self, vector.zero_() if RANK == WRONG_RANK else vector)

    return replaced(TorchLink, "start_all_reduce", make)


def _element_lost(payload: int) -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        def lose(vector: torch.Tensor) -> list[torch.Tensor]:
            if RANK == WRONG_RANK:
                vector[payload] = 0
            return [vector]

        return lambda self, vector: genuine(self, vector).then(lambda done: lose(done.value()[0]))

    return replaced(TorchLink, "start_all_reduce", make)


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

    return replaced(groups, "split", make)


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


# --- credit


def _in_wrong_step(step: Callable[..., None]) -> Fault:
    """One step of the timed region is replaced by `step`, which receives the genuine one first."""

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
        functional.cross_entropy(training.execution.replica(x), y)

    return _in_wrong_step(forward)


def step_on_half_a_batch() -> Fault:
    return _in_wrong_step(lambda genuine, training, x, y: genuine(training, x[::2], y[::2]))


def last_batch_credited_in_full() -> Fault:
    def make(genuine: Callable[..., None]) -> Any:
        def epoch(self: Training, *arguments: Any) -> None:
            genuine(self, *arguments)
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

    return replaced(assembly, "build", make)


# --- settings of the input


def batch_of_another_size() -> Fault:
    """Models are trained with half the batch, consistently."""

    def make(genuine: Callable[..., Training]) -> Any:
        def training_of(*arguments: Any) -> Training:
            *before, recipe = arguments
            return genuine(*before, replace(recipe, batch=recipe.batch // 2))

        return training_of

    return replaced(assembly, "training_of", make)


def model_trained_on_all_samples() -> Fault:
    """The last model is trained on each sample once instead of the draws of its sampler."""

    def make(genuine: Callable[..., Sampler]) -> Any:
        def sampler(kind: str, samples: int, *arguments: Any) -> Sampler:
            return Whole(samples) if RANK == WRONG_RANK else genuine(kind, samples, *arguments)

        return sampler

    return replaced(assembly, "sampler", make)


# --- the loss


def model_diverges() -> Fault:
    def make(genuine: Callable[..., float]) -> Any:
        return lambda self, step: 1e30 if RANK == WRONG_RANK else genuine(self, step)

    return replaced(Training, "_rate", make)
