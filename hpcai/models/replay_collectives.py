"""The collective layers of a tensor-parallel network as a replay runs them: sums over the ranks, and torch's operators.

Channels of other ranks are zeros in what is summed. Nothing but the sum has a backward pass of its own.
"""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from hpcai.networks.collective_layers import COLLECTIVE, AllGather, AllReduce, Divide, ReduceScatter, channels_of


class RankSums(Protocol):
    """Sums over the ranks that share a network."""

    rank: int
    ranks: int

    def sum(self, summand: Tensor) -> Tensor:
        """The sum of the ranks' tensors, the same on each. Collective."""


class _Sum(torch.autograd.Function):
    """The sum over the ranks, or the tensor itself; backward the sum of the gradients, or the gradient itself."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sums: RankSums, forward: bool, backward: bool) -> Tensor:
        ctx.sums, ctx.summed = sums, backward
        return sums.sum(tensor) if forward else tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.sums.sum(gradients[0]) if ctx.summed else gradients[0], None, None, None


def replayed(op: COLLECTIVE, tensor: Tensor, sums: RankSums) -> Tensor:
    """The output of a collective layer. Collective over the ranks, backward as well."""
    match op:
        case ReduceScatter():
            first, end = channels_of(sums.rank, sums.ranks, op.channels)
            return _sum(tensor, sums)[:, first:end].clone(memory_format=torch.preserve_format)
        case AllGather():
            first, end = channels_of(sums.rank, sums.ranks, op.channels)
            others = [0] * (2 * (tensor.ndim - 2)) + [first, op.channels - end]
            return _sum(pad(tensor, others), sums, backward=op.divided)
        case AllReduce():
            return _sum(tensor, sums, backward=False)
        case Divide():
            return _sum(tensor, sums, forward=False)


def _sum(tensor: Tensor, sums: RankSums, forward: bool = True, backward: bool = True) -> Tensor:
    result: Tensor = _Sum.apply(tensor, sums, forward, backward)
    return result
