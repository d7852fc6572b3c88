"""The process grid: P groups of Q ranks (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from dataclasses import dataclass, field
from typing import Protocol

from mpi4py import MPI

from hpcai.comm.grid_coordinates import Coordinates, coordinates
from hpcai.inputfile.split import Place, Split

__all__ = ["Coordinates", "Group", "coordinates", "split"]


class Resource(Protocol):
    """Something that was made for a group."""

    def free(self) -> None:
        """Give it back. Collective over the group."""


@dataclass(frozen=True)
class Group:
    """Communicators of this rank in the grid.

    active: all ranks of the grid; model: the Q ranks of this rank's model; across: the P ranks with the same
    `coordinates.member` in every model; replicas: the ranks of this rank's model with the same shard of it; shards: the
    ranks of this rank's replica. resources: by name, freed with the group.
    """

    groups: int
    degree: int
    coordinates: Coordinates
    active: MPI.Comm
    model: MPI.Comm
    across: MPI.Comm
    replicas: MPI.Comm
    shards: MPI.Comm
    divided: Split
    resources: dict[str, Resource] = field(default_factory=dict, compare=False)

    @property
    def leader(self) -> bool:
        """Whether this rank is the first of its model."""
        return self.coordinates.member == 0

    @property
    def place(self) -> Place:
        """The replica and the shard of this rank."""
        return self.divided.place(self.coordinates.member)

    @property
    def counts(self) -> bool:
        """Whether what all ranks of a replica have in common, its samples and its outputs, is counted on this one."""
        return self.place.shard == 0

    def free(self) -> None:
        for resource in self.resources.values():
            resource.free()
        own = (self.shards, self.replicas) if self.divided.shards > 1 else ()
        for comm in (*own, self.across, self.model, self.active):
            comm.Free()


def split(world: MPI.Comm, groups: int, degree: int, mapping: str, divided: Split | None = None) -> Group | None:
    """Split all ranks into the grid; None on idle ranks. `divided`: how a group divides its model, by default by data.

    Collective; the arguments are the same on every rank.
    """
    found = coordinates(world.rank, groups, degree, mapping)
    active = world.Split(MPI.UNDEFINED if found is None else 0, world.rank)
    if found is None:
        return None
    divided = divided or Split(degree, 1)
    model, place = active.Split(found.group, found.member), divided.place(found.member)
    sharded = divided.shards > 1
    return Group(
        *(groups, degree, found, active, model),
        across=active.Split(found.member, found.group),
        replicas=model.Split(place.shard, place.replica) if sharded else model,
        shards=model.Split(place.replica, place.shard) if sharded else MPI.COMM_SELF,
        divided=divided,
    )
