"""The paths by which a case may sum gradients: algorithms that its nodes allow, by the backends that there are."""

from collections.abc import Sequence

from mpi4py import MPI

from hpcai.comm import communicators
from hpcai.comm.grid_coordinates import coordinates
from hpcai.comm.group_links import GroupLinks, Path
from hpcai.comm.nodes import assumed_ranks, node_numbers
from hpcai.comm.world import World, agreed
from hpcai.errors import InputError, Refused
from hpcai.gradients.layout import Layout
from hpcai.gradients.reductions import AUTO, REDUCTIONS, algorithms
from hpcai.gradients.wires import WIRES
from hpcai.inputfile import Case


def paths_of(case: Case, links: GroupLinks) -> list[Path]:
    """The paths of a group, the same on each of its ranks; InputError if there is none.

    A plain wire with ALLREDUCE flat has one: the backend's own all-reduce, which needs no thread.
    """
    refused = {name: REDUCTIONS[name]().refusal(lambda: links.layout) for name in algorithms(case.allreduce)}
    if all(refused.values()):
        raise InputError("; ".join(refused.values()))
    fixed = case.allreduce != AUTO and WIRES[case.wire].plain
    return [
        Path(name, by)
        for name, why in refused.items()
        if not why
        for by in links.backends
        if not (fixed and name == "flat" and by == "mpi")
    ]


def refuse_unequal_nodes(cases: Sequence[Case], world: World) -> None:
    """Refused if a group of a case cannot use the algorithm that the case names. Collective over all ranks.

    Each group looks at its own nodes, so that no rank has to know those of all ranks.
    """
    agreed(world.comm, assumed_ranks)
    named = [case for case in cases if case.trains and case.degree > 1 and case.allreduce not in (AUTO, "flat")]
    distinct = {(case.groups, case.degree, case.mapping, case.allreduce): case for case in reversed(named)}
    reasons = [(_reason(case, world), case.index) for case in distinct.values()]
    wrong = {why: index for why, index in sorted(reasons, key=lambda found: -found[1]) if why}
    if wrong:
        texts = (f"test {index} cannot be run: {why}" for why, index in wrong.items())
        raise Refused("; ".join(texts), InputError.exit_code)


def _reason(case: Case, world: World) -> str:
    """Why a group cannot use its algorithm, of one that cannot; the same on every rank. Collective over all ranks."""
    place, own = coordinates(world.rank, case.groups, case.degree, case.mapping), ""
    members = communicators.split(world.comm, place.group if place else MPI.UNDEFINED, world.rank)
    if members != MPI.COMM_NULL:
        own = REDUCTIONS[case.allreduce]().refusal(lambda: Layout(node_numbers(members), members.rank))
        members.Free()
    return str(world.comm.allreduce(own, MPI.MAX))
