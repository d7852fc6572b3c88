"""Averaging of the gradients of a stage over the replicas, after the last backward pass of a step."""

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from hpcai.train.communication import Communication

BYTES = 25 << 20  # of a bucket, at most, unless one parameter has more


class Bucket:
    """Gradients that are summed at once, in a buffer that stays. Named as torch's own buckets are."""

    def __init__(self, number: int, parameters: Sequence[nn.Parameter]) -> None:
        self._number, self._parameters = number, list(parameters)
        first = self._parameters[0]
        self._buffer = torch.zeros(sum(each.numel() for each in parameters), dtype=first.dtype, device=first.device)
        self._views = list(self._laid_out())

    def index(self) -> int:
        """Its number, from 0."""
        return self._number

    def buffer(self) -> torch.Tensor:
        """All gradients, one parameter after the other, each in the parameter's order in memory."""
        return self._buffer

    def parameters(self) -> list[nn.Parameter]:
        """Its parameters."""
        return self._parameters

    @torch.no_grad()
    def fill(self) -> None:
        """Move the gradients into the buffer."""
        for parameter, view in zip(self._parameters, self._views, strict=True):
            assert parameter.grad is not None, "every parameter takes part in every step"
            view.copy_(parameter.grad)
            parameter.grad = view

    def _laid_out(self) -> Iterator[torch.Tensor]:
        begin = 0
        for parameter in self._parameters:
            yield self._buffer.as_strided(parameter.shape, parameter.stride(), begin)
            begin += parameter.numel()


class GradientBuckets:
    """The gradients of a module, the last layers first."""

    def __init__(self, module: nn.Module, communication: Communication) -> None:
        self._communication = communication
        self._buckets = [Bucket(*numbered) for numbered in enumerate(_groups(module))]
        communication.carry(module)

    def average(self) -> None:
        """Average over the replicas. Collective over these."""
        self._communication.begin_exposed()
        for bucket in self._buckets:
            bucket.fill()
        for future in [self._communication.start(bucket) for bucket in self._buckets]:
            future.wait()


def _groups(module: nn.Module) -> Iterator[list[nn.Parameter]]:
    """Parameters of one type together, up to BYTES."""
    group: list[nn.Parameter] = []
    for parameter in reversed(list(module.parameters())):
        full = sum(each.nbytes for each in group) + parameter.nbytes > BYTES
        if group and (full or group[0].dtype != parameter.dtype):
            yield group
            group = []
        group.append(parameter)
    yield group
