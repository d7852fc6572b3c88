"""Which ranks of a group are linked by an all-reduce of several phases: in nodes and between them, or in a grid."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Literal

LinkName = Literal["group", "node", "between", "row", "column"]
Members = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The nodes of a group's ranks by member, any numbers; and the member that this rank is."""

    nodes: tuple[int, ...]
    member: int

    @property
    def ranks(self) -> int:
        """Ranks of the group."""
        return len(self.nodes)

    @property
    def by_node(self) -> list[Members]:
        """The members of each node, in order of their first members."""
        members: dict[int, list[int]] = {}
        for member, node in enumerate(self.nodes):
            members.setdefault(node, []).append(member)
        return [tuple(each) for each in members.values()]

    def members(self, link: LinkName) -> Members:
        """The members that this rank is linked with, itself among them, in ascending order."""
        return _MEMBERS[link](self)

    def sizes(self, links: Sequence[LinkName]) -> dict[LinkName, int]:
        """Ranks of each of these links."""
        return {link: len(self.members(link)) for link in links}


def unequal_nodes(nodes: Sequence[int]) -> str:
    """Ranks of a group by node, as text, if they are not equally many; else empty."""
    counts = sorted({*Counter(nodes).values()})
    return "" if len(counts) <= 1 else f"nodes with {' and '.join(map(str, counts))} ranks of a group"


def torus_size(ranks: int) -> tuple[int, int]:
    """Rows R and columns C of a group's grid: the factors nearest to each other, R <= C; 1 x Q if Q is a prime."""
    rows = next(rows for rows in range(isqrt(ranks), 0, -1) if ranks % rows == 0)
    return rows, ranks // rows


def _node(layout: Layout) -> Members:
    return next(members for members in layout.by_node if layout.member in members)


def _between(layout: Layout) -> Members:
    """The members with this rank's position in their nodes."""
    position = _node(layout).index(layout.member)
    return tuple(sorted(members[position] for members in layout.by_node if position < len(members)))


def _row(layout: Layout) -> Members:
    columns = torus_size(layout.ranks)[1]
    first = layout.member // columns * columns
    return tuple(range(first, first + columns))


def _column(layout: Layout) -> Members:
    columns = torus_size(layout.ranks)[1]
    return tuple(range(layout.member % columns, layout.ranks, columns))


_MEMBERS: dict[LinkName, Callable[[Layout], Members]] = {
    "group": lambda layout: tuple(range(layout.ranks)),
    "node": _node,
    "between": _between,
    "row": _row,
    "column": _column,
}
