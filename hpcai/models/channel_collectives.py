"""Torch functions of the collective layers of a tensor-parallel network.

Each has the other one as its backward pass (Shoeybi et al., Megatron-LM, 2019, section 3): the gradient of what every
rank has whole is whole where all ranks compute the same with it, and a partial sum where they divide the work.

A replay has functions of its own (`replay_collectives`), so that an error in these is found by it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from hpcai.models.replay_collectives import RankSums, replayed
from hpcai.networks.collective_layers import COLLECTIVE, AllGather, AllReduce, Divide, ReduceScatter, channels_of
from hpcai.networks.layers import Op


class ChannelExchange(Protocol):
    """Exchanges of channels, the second dimension of a tensor, between ranks. All are collective."""

    rank: int
    ranks: int

    def reduce_scatter(self, partial_sum: Tensor) -> Tensor:
        """The sum over the ranks, of the rank's own channels."""

    def all_gather(self, shard: Tensor, channels: int) -> Tensor:
        """The channels of all ranks, so many."""

    def all_reduce(self, partial_sum: Tensor) -> Tensor:
        """The sum over the ranks, the same bits on each."""


class Exchanges:
    """What a network's collective layers run by: the exchange of the training, or the sums of replays."""

    def __init__(self) -> None:
        self._training: ChannelExchange | None = None
        self._sums: RankSums | None = None
        self._replaying = False

    def __deepcopy__(self, copies: dict[int, Any]) -> "Exchanges":
        """Itself: copies of a network run on the same ranks."""
        return self

    def connect(self, training: ChannelExchange, sums: RankSums) -> None:
        """Run by these from now on."""
        self._training, self._sums = training, sums

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """While the block runs, the network runs by the sums of replays."""
        before, self._replaying = self._replaying, True
        try:
            yield
        finally:
            self._replaying = before

    def run(self, op: COLLECTIVE, tensor: Tensor) -> Tensor:
        """The output of a collective layer; the network must have been connected."""
        assert self._training is not None and self._sums is not None, "its ranks run a tensor-parallel network"
        if self._replaying:
            return replayed(op, tensor, self._sums)
        return _trained(op, tensor, self._training)


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial_sum: Tensor, exchange: ChannelExchange) -> Tensor:
        ctx.exchange, ctx.channels = exchange, partial_sum.shape[1]
        return exchange.reduce_scatter(partial_sum)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.all_gather(gradients[0], ctx.channels), None


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, shard: Tensor, exchange: ChannelExchange, channels: int, divided: bool) -> Tensor:
        ctx.exchange, ctx.channels, ctx.divided = exchange, channels, divided
        return exchange.all_gather(shard, channels)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        exchange: ChannelExchange = ctx.exchange
        if ctx.divided:
            return exchange.reduce_scatter(gradients[0]), None, None, None
        first, end = channels_of(exchange.rank, exchange.ranks, ctx.channels)
        return gradients[0][:, first:end], None, None, None


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial_sum: Tensor, exchange: ChannelExchange) -> Tensor:
        return exchange.all_reduce(partial_sum)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class _Divide(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole: Tensor, exchange: ChannelExchange) -> Tensor:
        ctx.exchange = exchange
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.all_reduce(gradients[0]), None


def collective(op: Op, exchanges: Exchanges) -> Callable[[Tensor], Tensor] | None:
    """The function of a collective layer; None for other layers."""
    return partial(exchanges.run, op) if isinstance(op, COLLECTIVE) else None


def _trained(op: COLLECTIVE, tensor: Tensor, exchange: ChannelExchange) -> Tensor:
    result: Tensor
    match op:
        case ReduceScatter():
            result = _ReduceScatter.apply(tensor, exchange)
        case AllGather():
            result = _AllGather.apply(tensor, exchange, op.channels, op.divided)
        case AllReduce():
            result = _AllReduce.apply(tensor, exchange)
        case Divide():
            result = _Divide.apply(tensor, exchange)
    return result
