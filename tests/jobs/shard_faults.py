"""Faults of tensor parallelism, planted in the real program."""

from collections.abc import Callable
from typing import Any

import torch
from planting import Fault, replaced

from hpcai.comm.channel_exchange import PackedExchange
from hpcai.comm.grid import Group
from hpcai.models.channel_collectives import _AllGather, _Divide
from hpcai.networks.collective_layers import channels_of
from hpcai.train.layerwise import Shards


def partial_sum_of_a_rank_dropped() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        def reduce_scatter(self: Any, partial_sum: Any) -> Any:
            return genuine(self, partial_sum * 0 if self.rank == 1 else partial_sum)

        return reduce_scatter

    return replaced(PackedExchange, "reduce_scatter", make)


def own_channels_of_the_last_rank_lost() -> Fault:
    """Of gathered channels those of the last rank are 0 on the other ranks."""

    def make(genuine: Callable[..., Any]) -> Any:
        def gather(self: Any, own: Any, bounds: Any, whole: Any) -> None:
            genuine(self, own, bounds, whole)
            if self.rank == 0:
                whole[:, bounds[-1][0] :] = 0

        return gather

    return replaced(PackedExchange, "_gather_parts", make)


def _in_evaluation(name: str, change: Callable[[Any, Any], Any]) -> Fault:
    """What an exchange gives in evaluation mode is changed."""

    def make(genuine: Callable[..., Any]) -> Any:
        def exchange(self: Any, *given: Any) -> Any:
            found = genuine(self, *given)
            return change(self, found) if torch.is_inference_mode_enabled() else found

        return exchange

    return replaced(PackedExchange, name, make)


def channels_of_a_rank_lost_in_evaluation() -> Fault:
    return _in_evaluation("reduce_scatter", lambda self, found: found * (self.rank != 1))


def channels_in_another_order_in_evaluation() -> Fault:
    return _in_evaluation("all_gather", lambda self, found: found.flip(1))


def gradient_of_gathered_channels_not_summed() -> Fault:
    """The partial gradient of a rank counts as the sum, which is still exchanged."""

    def make(genuine: Callable[..., Any]) -> Any:
        def backward(ctx: Any, *gradients: Any) -> Any:
            found = genuine(ctx, *gradients)
            first, end = channels_of(ctx.exchange.rank, ctx.exchange.ranks, ctx.channels)
            return (gradients[0][:, first:end], *found[1:])

        return staticmethod(backward)

    return replaced(_AllGather, "backward", make)


def each_shard_credited() -> Fault:
    """Samples count on every rank of a model, not on one."""
    return replaced(Group, "counts", lambda genuine: property(lambda self: True))


def _norms_of_the_shard(*rows: int) -> Fault:
    """Of squared norms of weights (0) and of what moves them (1), those of these rows are not summed over the ranks."""

    def make(genuine: Callable[..., Any]) -> Any:
        def whole(self: Any, weights: Any, squares: Any) -> Any:
            found = genuine(self, weights, squares)
            for row in rows:
                found[row] = squares[row]
            return found

        return whole

    return replaced(Shards, "whole", make)


def norms_of_a_shard_for_those_of_the_tensor() -> Fault:
    return _norms_of_the_shard(0, 1)


def norm_of_a_shards_weights() -> Fault:
    return _norms_of_the_shard(0)


def norm_of_a_shards_move() -> Fault:
    return _norms_of_the_shard(1)


def numbers_of_shards_not_summed() -> Fault:
    return replaced(PackedExchange, "total", lambda genuine: lambda self, numbers: None)


def summand_of_a_rank_dropped() -> Fault:
    """Of all-reduced partial sums that of a rank is left out."""

    def make(genuine: Callable[..., Any]) -> Any:
        def all_reduce(self: Any, partial_sum: Any) -> Any:
            return genuine(self, partial_sum * 0 if self.rank == 1 else partial_sum)

        return all_reduce

    return replaced(PackedExchange, "all_reduce", make)


def gradient_of_divided_rows_not_summed() -> Fault:
    """What a rank's heads and units give is taken for the whole gradient of the rows that they read."""

    def make(genuine: Callable[..., Any]) -> Any:
        def backward(ctx: Any, *gradients: Any) -> Any:
            genuine(ctx, *gradients)
            return gradients[0], None

        return staticmethod(backward)

    return replaced(_Divide, "backward", make)
