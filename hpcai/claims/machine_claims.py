"""Claims about the machine of a run, its process grids, and the test in which it was broken off."""

import re
from collections.abc import Iterator, Sequence

from hpcai.comm.grid_coordinates import LISTED_RANKS, grids_of, groups_of, idle_ranks, listed_grids
from hpcai.inputfile import Case
from hpcai.machine.library_variables import is_setting
from hpcai.machine.signals import ASKING
from hpcai.record.entry import Entry
from hpcai.record.machine import Environment, Rank
from hpcai.record.result import Result
from hpcai.results.claim import Subject, violated
from hpcai.results.lost_groups import tells_of_lost_ranks
from hpcai.workloads import registry

CPU = "cpu"
SIGNALS = "|".join(number.name for number in ASKING)


def violated_machine_claims(result: Result, cases: Sequence[Case]) -> Iterator[str]:
    """The violated claims about ranks and nodes of a result; none if all hold."""
    environment, ranks = result.environment, result.ranks
    claims = {**_ranks(environment, ranks, cases), **_devices(environment, ranks)}
    yield from (claim for claim, holds in claims.items() if not holds)
    for index, test in enumerate(result.tests):
        if test.verdict == "PASSED" and not _slowest_host(test, ranks):
            yield f"tests[{index}].raw: slowest_host: of slowest_rank"


def _ranks(environment: Environment, ranks: Sequence[Rank], cases: Sequence[Case]) -> dict[str, bool]:
    size, grids = environment.ranks, grids_of(cases)
    expected = (listed_grids(grids), idle_ranks(grids, size))
    return {
        "environment: the grids of the tests, and their idle ranks": (environment.grids, environment.idle) == expected,
        "environment: variables that are settings of libraries": all(map(is_setting, environment.variables)),
        "environment: at most a node for each rank": environment.nodes <= size,
        "ranks: each that is listed, in order": [rank.rank for rank in ranks] == [*range(min(LISTED_RANKS, size))],
        "ranks: interface and address, of several nodes": all(_sound_interface(environment, rank) for rank in ranks),
        "ranks: groups, by the grids": all([*rank.groups] == groups_of(rank.rank, grids) for rank in ranks),
    }


def _sound_interface(environment: Environment, rank: Rank) -> bool:
    """Whether a rank has both, or neither, and neither on the only node."""
    return (rank.interface is None) == (rank.address is None) and (rank.address is None or environment.nodes > 1)


def _devices(environment: Environment, ranks: Sequence[Rank]) -> dict[str, bool]:
    """All ranks use GPUs, or none; a node has no more GPUs than ranks."""
    count = environment.accelerators
    return {
        "accelerators > 0 if, and only if, the device is no cpu": (count > 0) == (environment.device != CPU),
        "ranks: on the cpu if, and only if, accelerators = 0": all(
            (rank.device == CPU) == (count == 0) for rank in ranks
        ),
        "accelerators <= ranks of a node": count * environment.nodes <= environment.ranks,
    }


def _slowest_host(entry: Entry, ranks: Sequence[Rank]) -> bool:
    """Whether the host of the slowest rank is the one of that rank in the rank map."""
    slowest = getattr(entry.raw, "busy_seconds", None)
    hosts = {rank.rank: rank.host for rank in ranks}
    return slowest is None or hosts.get(slowest.slowest_rank, slowest.slowest_host) == slowest.slowest_host


def violated_run_claims(result: Result, cases: Sequence[Case]) -> Iterator[str]:
    """The violated claims about the test in which the run was broken off; none if the run was killed."""
    stopped, ended = result.broken_off, len(result.tests) + len(result.tables)
    if stopped is None:
        return
    if ended == len(cases) or stopped.index != ended + 1:
        yield "broken_off: the test after the last, of a run that is not complete"
        return
    case = cases[ended]
    if not _caused(stopped.cause, case, result.environment.ranks):
        yield "broken_off: by a signal to a rank, TIMELIMIT, or the loss of a rank"
    elif stopped.raw is not None:
        claims = registry.part(case.workload, "claims").STOPPED_CLAIMS
        found = violated(claims, Subject(case, stopped.raw, result.environment))
        yield from (f"broken_off: {claim}" for claim in found)


def _caused(cause: str, case: Case, ranks: int) -> bool:
    limit = case.timelimit
    if signal := re.fullmatch(rf"(?:{SIGNALS}) on rank (0|[1-9][0-9]{{0,9}})", cause):
        return int(signal[1]) < ranks
    return _is_time_limit(cause, limit) or tells_of_lost_ranks(cause, ranks)


def _is_time_limit(cause: str, limit: float | str) -> bool:
    if isinstance(limit, str):
        return re.fullmatch(r"TIMELIMIT of (?!0 )[0-9.e+]{1,12} s", cause) is not None
    return limit > 0 and cause == f"TIMELIMIT of {limit:g} s"
