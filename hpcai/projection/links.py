"""Latency and bandwidth of a message within and between nodes, from the tables of `[comm]` of several results."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpcai.formulas.all_reduce_cost import Link, Links
from hpcai.formulas.collectives import BackendName, ScopeName, linear_model
from hpcai.record.result import Result

COLLECTIVE = "all_reduce"


@dataclass(frozen=True)
class Timing:
    """An all-reduce as measured: over r ranks, by one backend, within or between nodes.

    flows: communicators that shared the link of a node.
    """

    by: BackendName
    crossing: bool
    ranks: int
    flows: int
    nbytes: int
    seconds: float

    @property
    def message(self) -> tuple[int, float]:
        """Bytes and seconds of one of the 2 (r - 1) messages of a ring, as the link of a node carries them."""
        return round(self.nbytes * self.flows / self.ranks), self.seconds / (2 * (self.ranks - 1))


def timings(result: Result) -> Iterator[Timing]:
    """The all-reduces of a result that PASSED, of scopes that are wholly within a node, or have one rank of each."""
    nodes, ranks = result.environment.nodes, result.environment.ranks
    for row in result.collectives:
        place = _place(row.scope, nodes, ranks)
        if row.collective == COLLECTIVE and row.verdict == "PASSED" and place is not None:
            crossing, flows = place
            yield Timing(row.by, crossing, row.ranks, flows, row.nbytes, row.seconds)


def _place(scope: ScopeName, nodes: int, ranks: int) -> tuple[bool, int] | None:
    """Whether a scope crosses nodes, and how many communicators share a link; None where it does both."""
    if scope == "node" or nodes == 1:
        return False, 1
    if scope == "between":
        return True, -(-ranks // nodes)
    return (True, 1) if nodes == ranks else None


def fitted(found: Iterable[Timing], by: str, ranks_per_node: int) -> Links:
    """The links that fit the timings of one backend: a message takes alpha + beta x bytes (Hockney 1994).

    None for a kind of link of which fewer than two sizes were measured.
    """
    own = [timing for timing in found if timing.by == by]
    within, between = (_link([each for each in own if each.crossing == crossing]) for crossing in (False, True))
    return Links(ranks_per_node, within, between)


def _link(found: list[Timing]) -> Link | None:
    model = linear_model([timing.message for timing in found])
    return Link(model.alpha, model.beta) if model else None
