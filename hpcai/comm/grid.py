"""The process grid: P groups of Q ranks (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mpi4py import MPI

from hpcai.comm import communicators
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

    planned: groups of the grid, of which `groups` are left; each keeps its number. active: all ranks of these; model:
    the Q ranks of this rank's model; across: those with the same `coordinates.member` in every model. Of the model:
    replicas have the same shard and stage, parts the same replica; of the parts: shards have the same stage, stages the
    same shard. resources: by name, freed with the group.
    """

    groups: int
    degree: int
    planned: int
    coordinates: Coordinates
    active: MPI.Comm
    model: MPI.Comm
    across: MPI.Comm
    replicas: MPI.Comm
    parts: MPI.Comm
    shards: MPI.Comm
    stages: MPI.Comm
    divided: Split
    resources: dict[str, Resource] = field(default_factory=dict, compare=False)

    @property
    def leader(self) -> bool:
        """Whether this rank is the first of its model."""
        return self.coordinates.member == 0

    @property
    def place(self) -> Place:
        """The replica, the shard and the stage of this rank."""
        return self.divided.place(self.coordinates.member)

    @property
    def counts(self) -> bool:
        """Whether what belongs to a replica, its samples and its outputs, is counted on this rank.

        The outputs are on the ranks of the last stage.
        """
        return self.place.shard == 0 and self.place.stage == self.divided.stages - 1

    @property
    def communicators(self) -> tuple[MPI.Comm, ...]:
        """Each communicator that was made for the group, once."""
        given = (MPI.COMM_SELF, self.model)
        own = {id(comm): comm for comm in (self.stages, self.shards, self.parts, self.replicas) if comm not in given}
        return (*own.values(), self.across, self.model, self.active)

    def free(self) -> None:
        for resource in self.resources.values():
            resource.free()
        for comm in self.communicators:
            comm.Free()


def split(
    world: MPI.Comm,
    groups: int,
    degree: int,
    mapping: str,
    divided: Split | None = None,
    lost: Sequence[int] = (),
    number: int | None = None,
) -> Group | None:
    """Split all ranks into the grid; None on idle ranks and in lost groups.

    divided: how a group divides its model, by default by data. lost: groups that are left out. number: of this rank
    when the job began, by default its rank. Collective; all arguments but `number` are the same on every rank.
    """
    found = coordinates(world.rank if number is None else number, groups, degree, mapping)
    found = found if found and found.group not in lost else None
    active = communicators.split(world, MPI.UNDEFINED if found is None else 0, world.rank)
    if found is None:
        return None
    divided = divided or Split(degree, 1)
    model, place = communicators.split(active, found.group, found.member), divided.place(found.member)
    parts = _those_alike(model, divided.parts, place.replica)
    return Group(
        *(groups - len(lost), degree, groups, found, active, model),
        across=communicators.split(active, found.member, found.group),
        replicas=_those_alike(model, divided.replicas, place.stage * divided.shards + place.shard),
        parts=parts,
        shards=_those_alike(parts, divided.shards, place.stage),
        stages=_those_alike(parts, divided.stages, place.shard),
        divided=divided,
    )


def _those_alike(comm: MPI.Comm, count: int, color: int) -> MPI.Comm:
    """The ranks of a communicator with the same color, so many, in their order; it makes none that is not needed."""
    if count == 1:
        return MPI.COMM_SELF
    return comm if count == comm.size else communicators.split(comm, color, comm.rank)
