"""Claims about measured collectives: what follows from the input, the process grid and the machine."""

from collections.abc import Mapping
from typing import NamedTuple

from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.telemetry_claims import TELEMETRY
from hpcai.formulas.collectives import (
    ALGORITHMS,
    ONE_RANK,
    SCOPES,
    BackendName,
    CollectiveName,
    ScopeName,
    elements,
    measured_in,
    same_as,
    size,
)
from hpcai.inputfile import Case
from hpcai.results.alterations import appended, changed, removed, together
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.comm.record import CommRaw

TWO_NODES = "two nodes"  # example: one group of six ranks, four of them on the first node


class RequestedCollective(NamedTuple):
    """A collective and a size in bytes in the input."""

    scope: ScopeName
    by: BackendName
    collective: CollectiveName
    nbytes: int


def _raw(subject: Subject) -> CommRaw:
    raw: CommRaw = subject.entry.raw
    return raw


def _grid(case: Case) -> dict[ScopeName, int]:
    """Ranks of a communicator by scope, where the process grid determines them."""
    return {"world": case.groups * case.degree, "group": case.degree, "across": case.groups}


def _ranks(raw: CommRaw) -> dict[ScopeName, set[int]]:
    """Ranks of a communicator by measured scope."""
    found: dict[ScopeName, set[int]] = {}
    for row in raw.rows:
        found.setdefault(row.scope, set()).add(row.ranks)
    return found


def _width(raw: CommRaw, scope: ScopeName) -> int:
    """Ranks of a communicator of a scope; 1 where it was skipped."""
    return max(_ranks(raw).get(scope, {1}))


def _every_scope(subject: Subject) -> bool:
    raw = _raw(subject)
    return sorted([*_ranks(raw), *(each.scope for each in raw.skipped)]) == sorted(SCOPES)


def _skipped_by_grid(subject: Subject) -> bool:
    grid = _grid(subject.case)
    expected = {scope: ONE_RANK for scope, ranks in grid.items() if ranks == 1}
    whole: tuple[ScopeName, ...] = ("group", "across")
    expected |= {scope: same_as("world") for scope in whole if grid[scope] == grid["world"] > 1}
    return {each.scope: each.why for each in _raw(subject).skipped if each.scope in grid} == expected


def _skipped_by_machine(subject: Subject) -> bool:
    raw = _raw(subject)
    reasons = (ONE_RANK, *(same_as(scope) for scope in _ranks(raw)))
    return all(each.why in reasons for each in raw.skipped)


def _one_width(subject: Subject) -> bool:
    return all(len(ranks) == 1 for ranks in _ranks(_raw(subject)).values())


def _width_of_grid(subject: Subject) -> bool:
    ranks = _ranks(_raw(subject))
    return all(ranks.get(scope, {count}) == {count} for scope, count in _grid(subject.case).items())


def _positions(subject: Subject) -> bool:
    raw = _raw(subject)
    return _width(raw, "node") * _width(raw, "between") <= _grid(subject.case)["world"]


def _between_nodes(subject: Subject) -> bool:
    return _width(_raw(subject), "between") <= subject.environment.nodes


def _one_node(subject: Subject) -> bool:
    return subject.environment.nodes > 1 or not {"node", "between"} & _ranks(_raw(subject)).keys()


def _backends(subject: Subject) -> bool:
    names = {row.by for row in _raw(subject).rows}
    return not names or (len(names) == 2 and "mpi" in names)


def _nccl(subject: Subject) -> bool:
    return subject.environment.accelerators > 0 or all(row.by != "nccl" for row in _raw(subject).rows)


def _requested(case: Case, raw: CommRaw) -> dict[RequestedCollective, int]:
    """The collectives in the input that their backends support, and the ranks of each."""
    ranks: Mapping[ScopeName, int] = {row.scope: row.ranks for row in raw.rows}
    unsupported = {(each.scope, each.by, each.collective) for each in raw.unsupported}
    return {
        RequestedCollective(scope, by, collective, nbytes): ranks[scope]
        for scope in ranks
        for by in dict.fromkeys(row.by for row in raw.rows)
        for collective in measured_in(scope, case.groups)
        if (scope, by, collective) not in unsupported
        for nbytes in case["SIZES"]
    }


def _all_measured(subject: Subject) -> bool:
    raw = _raw(subject)
    expected = [
        each._replace(nbytes=size(each.collective, count, ranks))
        for each, ranks in _requested(subject.case, raw).items()
        if (count := elements(each.collective, each.nbytes, ranks))
    ]
    return [RequestedCollective(row.scope, row.by, row.collective, row.nbytes) for row in raw.rows] == expected


def _too_small(subject: Subject) -> bool:
    raw = _raw(subject)
    asked = _requested(subject.case, raw).items()
    small = [each for each, ranks in asked if elements(each.collective, each.nbytes, ranks) == 0]
    return [RequestedCollective(each.scope, each.by, each.collective, each.nbytes) for each in raw.too_small] == small


def _counts(subject: Subject) -> bool:
    return all(row.count == elements(row.collective, row.nbytes, row.ranks) for row in _raw(subject).rows)


def _timed_twice(subject: Subject) -> bool:
    """Whether all calls on hosts are timed by a second clock, or none in older results."""
    given = {(row.by == "nccl", row.second_clock is not None) for row in _raw(subject).rows}
    return (True, True) not in given and not {(False, True), (False, False)} <= given


_LACKING = {"scope": "world", "by": "mpi", "collective": "broadcast", "why": "not supported"}
_SMALL = {"scope": "world", "by": "mpi", "collective": "broadcast", "nbytes": 1024}

SCOPE_CLAIMS = (
    Claim("scopes: each is measured or skipped", _every_scope, removed("raw.skipped.0")),
    Claim(
        "scopes: those of the grid are skipped by its numbers",
        _skipped_by_grid,
        changed("raw.skipped.1.why", same_as("world")),
        TWO_NODES,
    ),
    Claim(
        "scopes: skipped for one rank, or for the ranks of another scope",
        _skipped_by_machine,
        changed("raw.skipped.0.why", "busy"),
    ),
    Claim("scopes: all communicators have as many ranks", _one_width, changed("raw.rows.0.ranks", 3)),
    Claim("scopes: ranks of the process grid", _width_of_grid, changed("raw.rows.*.ranks", 3)),
    Claim(
        "scopes: at most one rank for each position on each node", _positions, changed("raw.rows.*.ranks", 6), TWO_NODES
    ),
    Claim(
        "scopes: at most one rank of each node between nodes",
        _between_nodes,
        changed("raw.rows.*.ranks", 6),
        TWO_NODES,
    ),
    Claim("scopes: none within or between nodes where there is one", _one_node, changed("raw.rows.*.scope", "node")),
)
BACKEND_CLAIMS = (
    Claim("backends: MPI and one that trains", _backends, changed("raw.rows.*.by", "mpi")),
    Claim("backends: nccl with GPUs only", _nccl, changed("raw.rows.*.by", "nccl")),
    Claim(
        "backends: MPI has every collective",
        lambda subject: all(each.by != "mpi" or each.collective in ALGORITHMS for each in _raw(subject).unsupported),
        appended("raw.unsupported", _LACKING),
    ),
    Claim(
        "backends: each has the all-reduce",
        lambda subject: all(each.collective != "all_reduce" for each in _raw(subject).unsupported),
        appended("raw.unsupported", {**_LACKING, "by": "gloo", "collective": "all_reduce"}),
    ),
)
ROW_CLAIMS = (
    Claim("rows: every collective and size that is asked for, in order", _all_measured, removed("raw.rows.-1")),
    Claim("too_small: the sizes of less than one element for each rank", _too_small, appended("raw.too_small", _SMALL)),
    Claim(
        "rows: calls timed by a second clock, except by nccl",
        _timed_twice,
        together(changed("raw.rows.*.second_clock", 0.1), changed("raw.rows.0.second_clock", None)),
    ),
    Claim("rows: count, of nbytes and ranks", _counts, changed("raw.rows.0.count", 255)),
)
CLAIMS: Claims = ((*MEMORY, *TELEMETRY, *SCOPE_CLAIMS, *BACKEND_CLAIMS), ROW_CLAIMS)
STOPPED_CLAIMS: Claims = ()
