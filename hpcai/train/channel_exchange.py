"""The exchange of channels between the ranks that share a group's model."""

from dataclasses import dataclass, replace
from typing import cast

import torch

from hpcai.comm.channel_exchange import PackedExchange, ReplayExchange
from hpcai.comm.grid import Group
from hpcai.comm.transfers import transfers

NAME = "exchange"  # of this resource of a group


@dataclass(frozen=True)
class GroupExchange:
    """The exchanges of a rank with those that have other shards of its replica."""

    training: PackedExchange
    replay: ReplayExchange

    def free(self) -> None:
        """The communicator is the group's."""


def exchange_of(group: Group, device: torch.device) -> GroupExchange:
    """The exchanges of a group whose model is sharded. Collective over the shards when it is first called."""
    if NAME not in group.resources:
        divided, place = group.divided, group.place
        moves = transfers(group.shards, [divided.member(replace(place, shard=n)) for n in range(divided.shards)])
        group.resources[NAME] = GroupExchange(PackedExchange(moves, device), ReplayExchange(group.shards))
    return cast(GroupExchange, group.resources[NAME])
