"""Which rank sits where in a process grid (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Grid = tuple[int, int, str]  # groups, degree, mapping

LISTED_RANKS = 64  # rank 0 hears of these ranks by name; of the others only sums
LISTED_GRIDS = 8  # columns of the rank map


@dataclass(frozen=True)
class Coordinates:
    """Where one rank sits: model `group` of P, rank `member` of the Q that train it."""

    group: int
    member: int


def coordinates(rank: int, groups: int, degree: int, mapping: str) -> Coordinates | None:
    """The seat of a rank in a P x Q grid, None if it stays idle; `row` fills a group with consecutive ranks."""
    if rank >= groups * degree:
        return None
    if mapping == "row":
        return Coordinates(rank // degree, rank % degree)
    return Coordinates(rank % groups, rank // groups)


def grids_of(cases: Iterable[Mapping[str, Any]]) -> list[Grid]:
    """The different grids of the settings of cases, in their order; some cases have none."""
    gridded = (case for case in cases if "GROUPS" in case)
    return list(dict.fromkeys((case["GROUPS"], case["DEGREE"], case["MAPPING"]) for case in gridded))


def groups_of(rank: int, grids: Sequence[Grid]) -> list[int | None]:
    """The group of a rank in each of the grids that are listed; None where it stays idle."""
    seats = [coordinates(rank, *grid) for grid in grids[:LISTED_GRIDS]]
    return [place.group if place else None for place in seats]


def listed_grids(grids: Sequence[Grid]) -> tuple[str, ...]:
    """The grids of the rank map, in words."""
    return tuple(f"{p}x{q} {mapping[0].upper()}" for p, q, mapping in grids[:LISTED_GRIDS])


def idle_ranks(grids: Sequence[Grid], ranks: int) -> tuple[str, ...]:
    """Which of the ranks stay idle in any of the grids, in words."""
    return tuple(_idle(p, q, ranks) for p, q, _ in grids if p * q < ranks)


def _idle(groups: int, degree: int, ranks: int) -> str:
    first, last = groups * degree, ranks - 1
    who = f"rank {first} stays" if first == last else f"ranks {first}-{last} stay"
    return f"Grid {groups} x {degree}: {who} idle"
