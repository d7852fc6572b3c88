"""The exchange of channels between the ranks that share a group's model."""

from dataclasses import dataclass, replace
from typing import cast

import torch

from hpcai.comm.channel_exchange import PackedExchange, ReplaySums
from hpcai.comm.grid import Group
from hpcai.comm.transfers import transfers
from hpcai.models.module import Layers
from hpcai.train.layerwise import Layerwise, Shards
from hpcai.train.state import TrainingState
from hpcai.train.tied_step import layer_of

NAME = "exchange"  # of this resource of a group


@dataclass(frozen=True)
class GroupExchange:
    """The exchanges of a rank with those that have other shards of its replica."""

    training: PackedExchange
    replay: ReplaySums

    def free(self) -> None:
        """The communicator is the group's."""


def exchange_of(group: Group, device: torch.device) -> GroupExchange:
    """The exchanges of a group whose model is sharded. Collective over the shards when it is first called."""
    if NAME not in group.resources:
        divided, place = group.divided, group.place
        moves = transfers(group.shards, [divided.member(replace(place, shard=n)) for n in range(divided.shards)])
        group.resources[NAME] = GroupExchange(PackedExchange(moves, device), ReplaySums(group.shards))
    return cast(GroupExchange, group.resources[NAME])


def share_norms(state: TrainingState, module: Layers, exchange: PackedExchange) -> None:
    """Let the optimiser of a sharded model know the norms of the other shards."""
    if isinstance(state.optimiser, Layerwise):
        parameters = module.named_parameters()
        uncounted = frozenset(value for name, value in parameters if layer_of(name) in module.uncounted)
        state.optimiser.shards = Shards(exchange.total, uncounted)
