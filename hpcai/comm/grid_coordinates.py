"""Coordinates of the ranks in a process grid (HPC AI500 V3, section 3, Eq. 5), mapped as HPL maps its grid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcai.inputfile import Case
from hpcai.inputfile.split import Split, parsed

Grid = tuple[int, int, str, Split]  # groups, degree, mapping, how a group divides its model

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


def groups_with(numbers: Iterable[int], case: Case) -> set[int]:
    """The groups of a case that have one of the ranks."""
    found = (coordinates(number, case.planned_groups, case.degree, case.mapping) for number in numbers)
    return {each.group for each in found if each}


def grids_of(cases: Iterable[Case]) -> list[Grid]:
    """The distinct grids of the cases, in order of first use; cases without a grid are skipped."""
    gridded = (case for case in cases if "GROUPS" in case.settings)
    return list(dict.fromkeys((case.planned_groups, case.degree, case.mapping, case.split) for case in gridded))


def groups_of(rank: int, grids: Sequence[Grid]) -> list[int | None]:
    """The group of a rank in each of the listed grids; None where it is idle."""
    found = [coordinates(rank, *grid[:3]) for grid in grids[:LISTED_GRIDS]]
    return [each.group if each else None for each in found]


def listed_grids(grids: Sequence[Grid]) -> tuple[str, ...]:
    """The grids of the rank map, in words; with replicas x shards x stages where models are divided otherwise."""
    return tuple(f"{p}x{q} {mapping[0].upper()}{_split(split)}" for p, q, mapping, split in grids[:LISTED_GRIDS])


def _split(split: Split) -> str:
    return "" if split.parts == 1 else f" {split.replicas}x{split.shards}x{split.stages}"


def place_in(grid: str, rank: int) -> str:
    """The replica, shard and stage of a rank in a grid of the rank map; empty where it is idle or has a whole model."""
    size, mapping, *split = grid.split()
    groups, degree = map(int, size.split("x"))
    found = coordinates(rank, groups, degree, {"R": "row", "C": "column"}[mapping])
    divided = parsed(split[0]) if split else None
    return f" {divided.place(found.member)}" if divided and found else ""


def idle_ranks(grids: Sequence[Grid], ranks: int) -> tuple[str, ...]:
    """Which of the ranks stay idle in any of the grids, in words."""
    mapped = dict.fromkeys((p, q, mapping) for p, q, mapping, _ in grids)
    return tuple(_idle(p, q, ranks) for p, q, _ in mapped if p * q < ranks)


def _idle(groups: int, degree: int, ranks: int) -> str:
    first, last = groups * degree, ranks - 1
    who = f"rank {first} stays" if first == last else f"ranks {first}-{last} stay"
    return f"Grid {groups} x {degree}: {who} idle"
