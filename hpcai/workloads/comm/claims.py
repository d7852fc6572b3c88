"""What measured collectives owe the input, the process grid and the machine."""

from collections.abc import Iterator, Sequence
from typing import Any

from hpcai.inputfile import Case
from hpcai.result.collectives import (
    COLLECTIVES,
    LEAST_ITERATIONS,
    ONE_RANK,
    SCOPES,
    TOO_SMALL,
    elements,
    same_as,
    size,
)

Json = dict[str, Any]
Key = tuple[str, str, str, int]  # scope, by, collective, size that was asked for


def claims(case: Case, raw: Json, environment: Json) -> Iterator[str]:
    """The claims that the measured collectives of a PASSED test break; none if all hold."""
    found = {**_scopes(case, raw, environment), **_backends(raw, environment)}
    yield from (claim for claim, holds in found.items() if not holds)
    if all(found.values()):
        rows = {**_rows(case, raw), **_values(raw)}
        yield from (claim for claim, holds in rows.items() if not holds)


def _scopes(case: Case, raw: Json, environment: Json) -> dict[str, bool]:
    """Each scope is measured or skipped, those of the grid by what the grid says of them."""
    ranks, skipped = _ranks_by_scope(raw), _skipped_scopes(raw)
    grid = {"world": case["GROUPS"] * case["DEGREE"], "group": case["DEGREE"], "across": case["GROUPS"]}
    expected = _skipped_by_grid(grid)
    of_grid = {scope: why for scope, why in skipped.items() if scope in grid}
    widths = [next(iter(ranks.get(scope, [1]))) for scope in ("node", "between")]
    return {
        "collectives: each scope is measured or skipped": sorted([*ranks, *skipped]) == sorted(SCOPES),
        "collectives: scopes of the grid are skipped by its numbers": of_grid == expected,
        "collectives: other scopes are skipped for one rank, or the ranks of another": all(
            why in (ONE_RANK, *(same_as(scope) for scope in ranks)) for why in skipped.values()
        ),
        "collectives: all communicators of a scope have as many ranks": all(len(each) == 1 for each in ranks.values()),
        "collectives: ranks of the grid": all(ranks.get(scope, {count}) == {count} for scope, count in grid.items()),
        "collectives: at most a rank for each position on each node": widths[0] * widths[1] <= grid["world"],
        "collectives: at most a rank of each node between nodes": widths[1] <= environment["nodes"],
        "collectives: on one node nothing lies between": environment["nodes"] > 1
        or not {"node", "between"} & ranks.keys(),
    }


def _ranks_by_scope(raw: Json) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for row in raw["rows"]:
        found.setdefault(row["scope"], set()).add(row["ranks"])
    return found


def _skipped_scopes(raw: Json) -> dict[str, str]:
    return {entry["scope"]: entry["why"] for entry in raw["skipped"] if len(entry) == 2}


def _skipped_by_grid(grid: dict[str, int]) -> dict[str, str]:
    found = {scope: ONE_RANK for scope, ranks in grid.items() if ranks == 1}
    same = {scope: same_as("world") for scope in ("group", "across") if grid[scope] == grid["world"] > 1}
    return found | same


def _backends(raw: Json, environment: Json) -> dict[str, bool]:
    names = {row["by"] for row in raw["rows"]}
    lacking = [entry for entry in raw["skipped"] if "collective" in entry and "nbytes" not in entry]
    return {
        "collectives: by MPI and one backend beside": not names or (len(names) == 2 and "mpi" in names),
        "collectives: nccl with GPUs only": "nccl" not in names or environment["accelerators"] > 0,
        "collectives: MPI lacks none": all(entry.get("by") not in (None, "mpi") for entry in lacking),
        "collectives: none lacks all-reduce": all(entry["collective"] != "all_reduce" for entry in lacking),
    }


def _rows(case: Case, raw: Json) -> dict[str, bool]:
    """Scope by scope, backend by backend, every collective of every size that is asked for, and skipped ones beside."""
    rows, skipped = raw["rows"], [entry for entry in raw["skipped"] if len(entry) > 2]
    ranks = {row["scope"]: row["ranks"] for row in rows}
    expected = [
        (scope, by, collective, nbytes)
        for scope in ranks
        for by in dict.fromkeys(row["by"] for row in rows)
        for collective in COLLECTIVES
        if not _lacks(skipped, scope, by, collective)
        for nbytes in case["SIZES"]
    ]
    small = [key for key in expected if elements(key[2], key[3], ranks[key[0]]) == 0]
    return {
        "collectives: those asked for, in order": _told(rows)
        == [_rounded(key, ranks[key[0]]) for key in expected if key not in small],
        "collectives: skipped sizes are too small": _too_small(skipped) == small,
    }


def _lacks(skipped: Sequence[Json], scope: str, by: str, collective: str) -> bool:
    which = (scope, by, collective)
    return any((e["scope"], e.get("by"), e.get("collective")) == which for e in skipped if "nbytes" not in e)


def _told(rows: Sequence[Json]) -> list[Key]:
    return [(row["scope"], row["by"], row["collective"], row["nbytes"]) for row in rows]


def _rounded(key: Key, ranks: int) -> Key:
    scope, by, collective, nbytes = key
    return scope, by, collective, size(collective, elements(collective, nbytes, ranks), ranks)


def _too_small(skipped: Sequence[Json]) -> list[Key]:
    return [
        (entry["scope"], entry.get("by", ""), entry.get("collective", ""), entry["nbytes"])
        for entry in skipped
        if "nbytes" in entry and entry["why"] == TOO_SMALL
    ]


def _values(raw: Json) -> dict[str, bool]:
    """What each row says beside its seconds."""
    rows = raw["rows"]
    return {
        "collectives: count, of nbytes and ranks": all(
            row["count"] == elements(row["collective"], row["nbytes"], row["ranks"]) for row in rows
        ),
        "collectives: redop and root, of the collective": all(
            (row["redop"], row["root"]) == (COLLECTIVES[row["collective"]].redop, COLLECTIVES[row["collective"]].root)
            for row in rows
        ),
        "collectives: seconds > 0": all(row["seconds"] > 0 for row in rows),
        f"collectives: iterations >= {LEAST_ITERATIONS}": all(row["iterations"] >= LEAST_ITERATIONS for row in rows),
    }
