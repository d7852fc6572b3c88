"""The process grid: P groups of Q ranks (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from dataclasses import dataclass, field
from typing import Protocol

from mpi4py import MPI

from hpcai.comm.grid_coordinates import Coordinates, coordinates

__all__ = ["Coordinates", "Group", "coordinates", "split"]


class Resource(Protocol):
    """Something that was made for a group."""

    def free(self) -> None:
        """Give it back. Collective over the group."""


@dataclass(frozen=True)
class Group:
    """Communicators of this rank in the grid.

    active: all ranks of the grid; model: the Q ranks of this rank's model; across: the P ranks with the same
    `coordinates.member` in every model. resources: by name, freed with the group.
    """

    groups: int
    degree: int
    coordinates: Coordinates
    active: MPI.Comm
    model: MPI.Comm
    across: MPI.Comm
    resources: dict[str, Resource] = field(default_factory=dict, compare=False)

    @property
    def leader(self) -> bool:
        """Whether this rank is the first of its model."""
        return self.coordinates.member == 0

    def free(self) -> None:
        for resource in self.resources.values():
            resource.free()
        for comm in (self.across, self.model, self.active):
            comm.Free()


def split(world: MPI.Comm, groups: int, degree: int, mapping: str) -> Group | None:
    """Split all ranks into the grid; None on idle ranks. Collective; the arguments are the same on every rank."""
    found = coordinates(world.rank, groups, degree, mapping)
    active = world.Split(MPI.UNDEFINED if found is None else 0, world.rank)
    if found is None:
        return None
    model = active.Split(found.group, found.member)
    across = active.Split(found.member, found.group)
    return Group(groups, degree, found, active, model, across)
