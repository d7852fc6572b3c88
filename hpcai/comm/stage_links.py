"""Transfers of activations and their gradients between the stages of a pipeline, and sums over stages.

In its passes a stage meets its neighbours only: a call sends to one of them and receives from it at once, tensor by
tensor, so that no two stages wait for each other.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor

from hpcai.comm.interval_timer import IntervalTimer, interval_timer
from hpcai.comm.transfers import Transfers, format_of, gathered
from hpcai.networks.layers import Received

Tensors = tuple[Tensor, ...]


class StageLinks:
    """Links of this rank's stage with the one before it and the one after it; `timer` measures them, waiting included.

    The types of the tensors are told before the first ones. `received`: what the stage receives, of a sample;
    `micro_batches`: how many the stage has trained.
    """

    def __init__(
        self, comm: MPI.Comm, transfers: Transfers, device: torch.device, received: Sequence[Received]
    ) -> None:
        self.stage, self.stages, self.received = comm.rank, comm.size, received
        self.timer: IntervalTimer = interval_timer(device)
        self.micro_batches = 0
        self._comm, self._transfers, self._device = comm, transfers, device
        self._kinds: list[torch.dtype] = []  # of received tensors
        self._told = False

    @property
    def sent(self) -> int:
        """Bytes that this rank has sent to others."""
        return self._transfers.sent

    @property
    def first(self) -> bool:
        """Whether this is the first stage."""
        return self.stage == 0

    @property
    def last(self) -> bool:
        """Whether this is the last stage."""
        return self.stage == self.stages - 1

    def receive(self, samples: int) -> Tensors:
        """The outputs of earlier stages for so many samples."""
        return self.exchange_with_previous((), samples)

    def send(self, outputs: Tensors) -> None:
        """Send outputs to the next stage."""
        self.exchange_with_next(outputs, ())

    def exchange_with_next(self, outputs: Tensors, wanted: Tensors) -> Tensors:
        """Send outputs to the next stage, and receive the gradients of `wanted` from it."""
        if not self._told and outputs:
            self._comm.send([tensor.dtype for tensor in outputs], self.stage + 1)
            self._told = True
        gradients = tuple(_empty(tensor.shape, tensor.dtype, self._device) for tensor in wanted)
        self._move(self.stage + 1, outputs, gradients)
        return gradients

    def exchange_with_previous(self, gradients: Tensors, samples: int) -> Tensors:
        """Send gradients to the stage before, and receive its outputs for so many samples; none for 0."""
        if samples and not self._kinds:
            self._kinds = self._comm.recv(source=self.stage - 1)
        expected = zip(self.received, self._kinds, strict=True) if samples else ()
        outputs = tuple(_empty((samples, *op.size), kind, self._device) for op, kind in expected)
        self._move(self.stage - 1, gradients, outputs)
        return self.differentiable(outputs)

    def differentiable(self, outputs: Tensors) -> Tensors:
        """Received outputs as tensors that get gradients in training, if they depend on parameters."""
        pairs = zip(outputs, self.received, strict=True) if torch.is_grad_enabled() and outputs else ()
        return tuple(output.requires_grad_(op.trained) for output, op in pairs) or outputs

    def largest(self, numbers: Tensor) -> None:
        """Replace numbers by the largest of the stages'."""
        numbers.copy_(gathered(self._transfers, numbers).amax(0))

    def total(self, numbers: Tensor) -> None:
        """Replace numbers by their sums over the stages, the same bits on each."""
        numbers.copy_(gathered(self._transfers, numbers).sum(0))

    @torch.no_grad()
    def add_up(self, numbers: Tensor, stages: Sequence[int]) -> None:
        """Replace numbers by their sums over some stages, in the order of these: the same bits on each.

        Collective over these stages, of which this one is one.
        """
        self.timer.begin()
        parts = [numbers if n == self.stage else _empty(numbers.shape, numbers.dtype, self._device) for n in stages]
        received = {n: _flat(part) for n, part in zip(stages, parts, strict=True)}
        own = _flat(_dense(numbers))
        everyone = range(self.stages)
        self._transfers.move([own if n in received else None for n in everyone], [received.get(n) for n in everyone])
        numbers.copy_(reduce(torch.add, parts))
        self.timer.end()

    def _move(self, other: int, sent: Tensors, received: Tensors) -> None:
        self.timer.begin()
        for number in range(max(len(sent), len(received))):
            to: list[Any] = [None] * self.stages
            by: list[Any] = [None] * self.stages
            to[other] = _flat(_dense(sent[number].detach())) if number < len(sent) else None
            by[other] = _flat(received[number]) if number < len(received) else None
            self._transfers.move(to, by)
        self.timer.end()


def _empty(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(tuple(shape), dtype=kind, device=device, memory_format=format_of(len(shape)))


def _dense(tensor: Tensor) -> Tensor:
    """The tensor with its channels last in memory."""
    return tensor.contiguous(memory_format=format_of(tensor.ndim))


def _flat(tensor: Tensor) -> Tensor:
    """All values in their order in memory, which they share."""
    return (tensor.permute(0, 2, 3, 1) if tensor.ndim == 4 else tensor).view(-1)
