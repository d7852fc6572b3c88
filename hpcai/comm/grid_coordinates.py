"""Coordinates of the ranks in a process grid (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcai.inputfile import Case

Grid = tuple[int, int, str]  # groups, degree, mapping

LISTED_RANKS = 64  # ranks that the report lists one by one; of the others it has sums
LISTED_GRIDS = 8  # columns of the rank map


@dataclass(frozen=True)
class Coordinates:
    """Position of one rank: model `group` of P, rank `member` of the Q ranks that train it."""

    group: int
    member: int


def coordinates(rank: int, groups: int, degree: int, mapping: str) -> Coordinates | None:
    """Coordinates of a rank in a P x Q grid, None if it is idle; `row` fills a group with consecutive ranks."""
    if rank >= groups * degree:
        return None
    if mapping == "row":
        return Coordinates(rank // degree, rank % degree)
    return Coordinates(rank % groups, rank // groups)


def grids_of(cases: Iterable[Case]) -> list[Grid]:
    """The distinct grids of the cases, in order of first use; cases without a grid are skipped."""
    gridded = (case for case in cases if "GROUPS" in case.settings)
    return list(dict.fromkeys((case.groups, case.degree, case.mapping) for case in gridded))


def groups_of(rank: int, grids: Sequence[Grid]) -> list[int | None]:
    """The group of a rank in each of the listed grids; None where it is idle."""
    found = [coordinates(rank, *grid) for grid in grids[:LISTED_GRIDS]]
    return [each.group if each else None for each in found]


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
