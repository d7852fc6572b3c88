"""Layers that exchange channels between the ranks of a tensor-parallel network.

A tensor of such a network is whole on every rank, or sharded: each rank has its own channels. Where each rank has a
summand of it, the tensor is a partial sum.
"""

from dataclasses import dataclass
from typing import ClassVar

from hpcai.networks.layers import Op, Shape


def channels_of(rank: int, ranks: int, channels: int) -> tuple[int, int]:
    """First channel of a rank and that after its last one; the numbers of the ranks differ by one at most."""
    return rank * channels // ranks, (rank + 1) * channels // ranks


@dataclass(frozen=True, slots=True)
class ReduceScatter(Op):
    """Of a partial sum of so many channels the sum, sharded; backward an all-gather."""

    kind: ClassVar[str] = "reduce-scatter"
    channels: int
    rank: int
    ranks: int

    def shape(self, *sources: Shape) -> Shape:
        if sources[0][0] != self.channels:
            raise ValueError(f"a partial sum of {sources[0][0]} channels, not {self.channels}")
        first, end = channels_of(self.rank, self.ranks, self.channels)
        return (end - first, *sources[0][1:])


@dataclass(frozen=True, slots=True)
class AllGather(Op):
    """Of a sharded tensor the whole one.

    divided: what reads it is divided among the ranks, so that its gradient is a partial sum: backward a reduce-scatter.
    Else all ranks compute the same with it: backward a slice.
    """

    kind: ClassVar[str] = "all-gather"
    channels: int
    rank: int
    ranks: int
    divided: bool

    def shape(self, *sources: Shape) -> Shape:
        first, end = channels_of(self.rank, self.ranks, self.channels)
        if sources[0][0] != end - first:
            raise ValueError(f"a shard of {sources[0][0]} channels, not {end - first}")
        return (self.channels, *sources[0][1:])


@dataclass(frozen=True, slots=True)
class AllReduce(Op):
    """Of a partial sum the sum, whole on every rank; backward nothing."""

    kind: ClassVar[str] = "all-reduce"
    ranks: int


@dataclass(frozen=True, slots=True)
class Divide(Op):
    """A whole tensor for a layer that is divided among the ranks: backward an all-reduce of its gradient."""

    kind: ClassVar[str] = "divide"
    ranks: int


COLLECTIVE = ReduceScatter | AllGather | AllReduce | Divide
