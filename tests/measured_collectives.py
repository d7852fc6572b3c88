"""Raw measurements of collectives as a sound run would have them, with times by a known model."""

from collections.abc import Callable
from typing import Any

from hpcai.inputfile import Case
from hpcai.result.collectives import COLLECTIVES, ONE_RANK, SCOPES, elements, same_as, size

Json = dict[str, Any]

SIZES = (1024, 65536, 1000, 2**28)
NODE = {"nodes": 1, "accelerators": 0}  # what the claims read of the environment
CLUSTER = {"nodes": 2, "accelerators": 0}


def case_of(groups: int, degree: int, sizes: tuple[int, ...] = SIZES) -> Case:
    """The third test of a run."""
    return Case(3, "comm", {"GROUPS": groups, "DEGREE": degree, "MAPPING": "row", "SIZES": sizes})


def row(
    collective: str, nbytes: int, ranks: int = 2, scope: str = "world", by: str = "gloo", seconds: float = 1e-3
) -> Json:
    """One row; `nbytes` as asked for."""
    count, kind = elements(collective, nbytes, ranks), COLLECTIVES[collective]
    return {
        "collective": collective,
        "scope": scope,
        "by": by,
        "ranks": ranks,
        "nbytes": size(collective, count, ranks),
        "count": count,
        "type": "float",
        "redop": kind.redop,
        "root": kind.root,
        "seconds": seconds,
        "iterations": 2,
        "wrong": 0,
    }


def raw_of(
    case: Case, scopes: dict[str, int], skipped: dict[str, str], seconds: Callable[[int], float] = lambda nbytes: 1e-3
) -> Json:
    """All that is asked for: `scopes` with the ranks of their communicators, `skipped` with their reasons."""
    rows = [
        row(collective, nbytes, ranks, scope, by, seconds(nbytes))
        for scope, ranks in scopes.items()
        for by in ("gloo", "mpi")
        for collective in COLLECTIVES
        for nbytes in case["SIZES"]
    ]
    return {"rows": rows, "skipped": [{"scope": scope, "why": skipped[scope]} for scope in SCOPES if scope in skipped]}


def single_node() -> tuple[Case, Json]:
    """Two groups of two on one node."""
    skipped = {"node": same_as("world"), "between": ONE_RANK}
    case = case_of(2, 2)
    return case, raw_of(case, {"world": 4, "group": 2, "across": 2}, skipped)


def two_nodes() -> tuple[Case, Json]:
    """One group of six ranks on two nodes, four on the first and two on the other."""
    skipped = {"group": same_as("world"), "across": ONE_RANK}
    case = case_of(1, 6)
    return case, raw_of(case, {"world": 6, "node": 2, "between": 2}, skipped)
