"""How the Q ranks of a group divide the training of its model: replicas, and shards of its channels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DATA, TENSOR = MODES = ("data", "tensor")  # the values of PARALLEL, in the order of their digits in T/V


@dataclass(frozen=True)
class Place:
    """Position of a rank in its group."""

    replica: int
    shard: int


@dataclass(frozen=True)
class Split:
    """d replicas x t shards = Q ranks. Each replica trains on samples of its own; each shard has channels of its own.

    Consecutive members of a group are shards, which move most bytes, so that a replica lies within a node if it can.
    """

    replicas: int
    shards: int

    def place(self, member: int) -> Place:
        """Of a member of the group, from 0."""
        return Place(member // self.shards, member % self.shards)


def split_of(settings: Mapping[str, Any]) -> Split:
    """The split of a case, by PARALLEL and DEGREE; the same on every rank."""
    degree = settings["DEGREE"]
    return Split(1, degree) if settings.get("PARALLEL", DATA) == TENSOR else Split(degree, 1)
