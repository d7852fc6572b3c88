"""The process grid: P groups of Q ranks (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from dataclasses import dataclass

from mpi4py import MPI

from hpcai.comm.grid_coordinates import Coordinates, coordinates

__all__ = ["Coordinates", "Group", "coordinates", "split"]


@dataclass(frozen=True)
class Group:
    """This rank's view of the grid: all active ranks, the ranks of its model, and its peers in the other models.

    `model` has Q ranks; `across` has P ranks, those with the same `seat.member` in every model.
    """

    groups: int
    degree: int
    coordinates: Coordinates
    active: MPI.Comm
    model: MPI.Comm
    across: MPI.Comm

    @property
    def leader(self) -> bool:
        """Whether this rank speaks for its model."""
        return self.coordinates.member == 0

    def free(self) -> None:
        for comm in (self.across, self.model, self.active):
            comm.Free()


def split(world: MPI.Comm, groups: int, degree: int, mapping: str) -> Group | None:
    """Split all ranks into the grid; None on ranks that stay idle. Collective, with equal arguments."""
    place = coordinates(world.rank, groups, degree, mapping)
    active = world.Split(MPI.UNDEFINED if place is None else 0, world.rank)
    if place is None:
        return None
    model = active.Split(place.group, place.member)
    across = active.Split(place.member, place.group)
    return Group(groups, degree, place, active, model, across)
