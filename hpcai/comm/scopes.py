"""Scopes of the timed collectives: communicators of the process grid and of its nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mpi4py import MPI

from hpcai.comm import communicators
from hpcai.comm.grid import Group
from hpcai.formulas.collectives import ONE_RANK, SCOPES, ScopeName, same_as


@dataclass(frozen=True)
class Scope:
    """Communicators of `ranks` ranks each, used at the same time.

    own: the communicator of this rank; members: the ranks of all of them. Both are COMM_NULL on active ranks outside
    the scope.
    """

    name: ScopeName
    ranks: int
    own: MPI.Comm
    members: MPI.Comm

    @property
    def joined(self) -> bool:
        """Whether this rank takes part."""
        return bool(self.own != MPI.COMM_NULL)


Skipped = dict[ScopeName, str]  # why, by name


@contextmanager
def scopes(group: Group, node: int) -> Iterator[tuple[list[Scope], Skipped]]:
    """The distinct scopes, and why the others are skipped; the same on every rank. Collective over active ranks.

    node: a number that identifies the node. If nodes have different numbers of active ranks, as many ranks of each node
    take part in `node` and `between` as the node with fewest has.
    """
    within, between = _by_node(group.active, node)
    comms = (group.active, group.model, group.across, within, between)
    found: list[Scope] = []
    skipped: Skipped = {}
    for name, comm in zip(SCOPES, comms, strict=True):
        scope = _scope(name, comm, group.active)
        reason = _reason(scope, found, group.active)
        if reason:
            skipped[name] = reason
            _free(scope.members)
        else:
            found.append(scope)
    yield found, skipped
    for comm in (*(scope.members for scope in found), within, between):
        _free(comm)


def _by_node(active: MPI.Comm, node: int) -> tuple[MPI.Comm, MPI.Comm]:
    """Communicators of the ranks of this node, and of the ranks with this rank's position on all nodes."""
    local = communicators.split(active, node, active.rank)
    position, fewest = local.rank, active.allreduce(local.size, MPI.MIN)
    local.Free()
    spare = position >= fewest
    within = communicators.split(active, MPI.UNDEFINED if spare else node, active.rank)
    between = communicators.split(active, MPI.UNDEFINED if spare else position, active.rank)
    return within, between


def _scope(name: ScopeName, comm: MPI.Comm, active: MPI.Comm) -> Scope:
    joined = comm != MPI.COMM_NULL
    ranks = active.allreduce(comm.size if joined else 0, MPI.MAX)
    return Scope(name, ranks, comm, communicators.split(active, 0 if joined else MPI.UNDEFINED, active.rank))


def _reason(scope: Scope, earlier: list[Scope], active: MPI.Comm) -> str:
    """Why a scope is skipped; empty if it is not."""
    if scope.ranks == 1:
        return ONE_RANK
    return next((same_as(other.name) for other in earlier if active.allreduce(_same_ranks(scope, other), MPI.LAND)), "")


def _same_ranks(one: Scope, other: Scope) -> bool:
    """Whether the two communicators of this rank have the same ranks."""
    if not (one.joined and other.joined):
        return one.joined == other.joined
    return MPI.Comm.Compare(one.own, other.own) != MPI.UNEQUAL


def _free(comm: MPI.Comm) -> None:
    if comm != MPI.COMM_NULL:
        comm.Free()
