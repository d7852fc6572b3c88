"""Raw measurements of collectives of a sound run, with times by a known model."""

from collections.abc import Callable

from msgspec import convert
from sample_records import environment

from hpcai.formulas.collectives import ONE_RANK, SCOPES, CollectiveName, elements, measured_in, same_as, size
from hpcai.inputfile import Case
from hpcai.workloads.comm.record import CommRaw, MeasuredCollective, SkippedScope

SIZES = (1024, 65536, 1000, 2**28)
NODE, CLUSTER = environment(), environment(ranks=6, nodes=2)


def case_of(groups: int, degree: int, sizes: tuple[int, ...] = SIZES) -> Case:
    """The third test of a run."""
    settings = {"GROUPS": groups, "DEGREE": degree, "MAPPING": "row", "SIZES": sizes, "SEED": 1, "TELEMETRY": 30.0}
    return Case(3, "comm", settings)


def row(
    collective: CollectiveName,
    nbytes: int,
    ranks: int = 2,
    scope: str = "world",
    by: str = "gloo",
    seconds: float = 1e-3,
    wrong: int = 0,
) -> MeasuredCollective:
    """One row; `nbytes` as requested."""
    count = elements(collective, nbytes, ranks)
    found = {
        "collective": collective,
        "scope": scope,
        "by": by,
        "ranks": ranks,
        "nbytes": size(collective, count, ranks),
        "count": count,
        "seconds": seconds,
        "iterations": 2,
        "wrong": wrong,
    }
    return convert(found, MeasuredCollective)


def raw_of(
    case: Case,
    scopes: dict[str, int],
    skipped: dict[str, str],
    seconds: Callable[[int], float] = lambda nbytes: 1e-3,
    wrong: int = 0,
) -> CommRaw:
    """All measurements of a case: `scopes` with the ranks of their communicators, `skipped` with their reasons.

    `wrong` elements in the first row.
    """
    rows = [
        row(collective, nbytes, ranks, scope, by, seconds(nbytes))
        for scope, ranks in scopes.items()
        for by in ("gloo", "mpi")
        for collective in measured_in(scope, case.groups)  # type: ignore[arg-type]
        for nbytes in case["SIZES"]
        if elements(collective, nbytes, ranks)
    ]
    left_out = tuple(SkippedScope(scope=scope, why=skipped[scope]) for scope in SCOPES if scope in skipped)
    return CommRaw(rows=tuple(rows), skipped=left_out, unsupported=(), too_small=())


def of_rows(*rows: MeasuredCollective) -> CommRaw:
    """Measurements with these rows alone."""
    return CommRaw(rows=rows, skipped=(), unsupported=(), too_small=())


def single_node() -> tuple[Case, CommRaw]:
    """Two groups of two on one node."""
    skipped = {"node": same_as("world"), "between": ONE_RANK}
    case = case_of(2, 2)
    return case, raw_of(case, {"world": 4, "group": 2, "across": 2}, skipped)


def two_nodes() -> tuple[Case, CommRaw]:
    """One group of six ranks on two nodes, four on the first and two on the other."""
    skipped = {"group": same_as("world"), "across": ONE_RANK}
    case = case_of(1, 6)
    return case, raw_of(case, {"world": 6, "node": 2, "between": 2}, skipped)
