"""The paths by which a case may sum gradients: algorithms that its nodes allow, by the backends that there are."""

from collections.abc import Iterator, Sequence
from functools import partial

from hpcai.comm.grid_coordinates import coordinates
from hpcai.comm.group_links import GroupLinks, Path
from hpcai.comm.nodes import assumed_ranks, node_numbers
from hpcai.comm.world import World, agreed
from hpcai.errors import InputError
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
    """Refused if a group of a case cannot use the algorithm that the case names. Collective over all ranks."""
    agreed(world.comm, assumed_ranks)
    named = [case for case in cases if case.trains and case.degree > 1 and case.allreduce not in (AUTO, "flat")]
    if named:
        nodes = node_numbers(world.comm)
        agreed(world.comm, lambda: _refuse(named, nodes))


def _refuse(cases: Sequence[Case], nodes: Sequence[int]) -> None:
    """InputError with all cases of which a group cannot use its algorithm; `nodes` of all ranks."""
    wrong = {why: case.index for case in reversed(cases) for why in _reasons(case, nodes)}
    if wrong:
        raise InputError("; ".join(f"test {index} cannot be run: {why}" for why, index in wrong.items()))


def _reasons(case: Case, nodes: Sequence[int]) -> Iterator[str]:
    """Why groups of a case cannot use its algorithm."""
    groups: dict[int, list[int]] = {}
    for rank, node in enumerate(nodes):
        place = coordinates(rank, case.groups, case.degree, case.mapping)
        if place is not None:
            groups.setdefault(place.group, []).append(node)
    for members in groups.values():
        if why := REDUCTIONS[case.allreduce]().refusal(partial(Layout, tuple(members), 0)):
            yield why
