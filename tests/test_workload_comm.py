"""The workload [comm] on real ranks: every scope of a grid, idle ranks, simulated nodes, and an early end."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import torch
from msgspec import convert
from sample_records import MEMORY, environment, plain

from hpcai.formulas.collectives import COLLECTIVES, ONE_RANK, SCOPES
from hpcai.inputfile import Case
from hpcai.results.claim import Subject, violated
from hpcai.results.measured import Before, Measured, Stopped
from hpcai.workloads.comm.checks import build
from hpcai.workloads.comm.claims import CLAIMS
from hpcai.workloads.comm.record import CommRaw, SkippedScope

if TYPE_CHECKING:
    from hpcai.comm.world import World

CPU = torch.device("cpu")
SIZES = (8, 1000, 70000)
Report = Callable[[str, float], None]


def case_of(groups: int, degree: int, sizes: tuple[int, ...] = SIZES) -> Case:
    settings: dict[str, Any] = {"GROUPS": groups, "DEGREE": degree, "MAPPING": "row", "SIZES": sizes}
    settings |= {"SEED": 1, "TELEMETRY": 0.0}
    return Case(2, "comm", settings)


def nodes_of(size: int) -> "World":
    """All ranks, as if they were divided into nodes of `size`."""
    from mpi4py import MPI

    from hpcai.comm.world import World

    world = MPI.COMM_WORLD
    return World(world, world.Split(world.rank // size, world.rank), "here")


def measured(case: Case, world: "World", report: Report = lambda text, share: None) -> CommRaw | Stopped | None:
    from hpcai.comm.shutdown import Shutdown
    from hpcai.workloads.comm import measure

    shutdown = Shutdown(world.comm, 0.0)
    raw = measure.run(case, world, CPU, report, shutdown)
    shutdown.close()
    return raw


def check(case: Case, world: "World", nodes: int) -> dict[str, int]:
    """Run a case; the ranks of a communicator by scope, if anything was measured."""
    reported: list[tuple[str, float]] = []
    raw = measured(case, world, lambda text, share: reported.append((text, share)))
    active = world.rank < case["GROUPS"] * case["DEGREE"]
    assert (raw is not None) == active
    if not active:
        return {}
    assert isinstance(raw, CommRaw)
    assert raw == world.comm.Create_group(world.comm.group.Incl(range(case["GROUPS"] * case["DEGREE"]))).bcast(raw)
    assert raw == convert(plain(raw), CommRaw)
    entry = build(case, Measured(raw, MEMORY), Before())
    assert list(violated(CLAIMS, Subject(case, entry, environment(ranks=world.size, nodes=nodes)))) == []
    assert all(row.wrong == 0 and row.by in ("gloo", "mpi") for row in raw.rows)
    assert [share for _, share in reported] == sorted(share for _, share in reported)
    assert all(0 <= share < 1 for _, share in reported) and bool(reported) == bool(raw.rows)
    return {row.scope: row.ranks for row in raw.rows}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm import collective_timing

    monkeypatch.setattr(collective_timing, "SECONDS", 0.001)
    monkeypatch.setattr(collective_timing, "TRIED", 0.0)


@pytest.mark.parallel(1)
def test_all_scopes_are_skipped_on_one_rank() -> None:
    world = nodes_of(8)
    raw = measured(case_of(1, 1), world)
    if world.rank == 0:
        skipped = tuple(SkippedScope(scope=scope, why=ONE_RANK) for scope in SCOPES)
        assert raw == CommRaw(rows=(), skipped=skipped, unsupported=(), too_small=())


@pytest.mark.parallel(2)
def test_two_ranks_in_one_group_or_in_two() -> None:
    world = nodes_of(8)
    for groups, degree in ((1, 1), (1, 2), (2, 1)):
        if world.size >= 2:
            expected = {"world": 2} if world.rank < 2 == groups * degree else {}
            assert check(case_of(groups, degree), world, 1) == expected


@pytest.mark.exhaustive
@pytest.mark.parallel(5)
def test_a_grid_of_four_on_two_simulated_nodes_with_an_idle_rank() -> None:
    world = nodes_of(2)
    if world.size < 4:
        return
    scopes = check(case_of(2, 2, (1000,)), world, 2)
    assert scopes == ({"world": 4, "group": 2, "across": 2} if world.rank < 4 else {})
    scopes = check(case_of(1, 4, (1000,)), world, 2)
    assert scopes == ({"world": 4, "node": 2, "between": 2} if world.rank < 4 else {})


@pytest.mark.exhaustive
@pytest.mark.parallel(3)
def test_ranks_without_a_counterpart_get_the_result_or_the_early_end() -> None:
    world = nodes_of(2)  # two ranks on the first node, one on the second
    if world.size == 3:
        assert check(case_of(1, 3), world, 2) == {"world": 3, "between": 2}
        _check_sizes(nodes_of(8))
        _check_early_end(nodes_of(8))


def _check_sizes(world: "World") -> None:
    """Reported in their order, and those too small as skipped."""
    raw = measured(case_of(1, 3), world)
    assert isinstance(raw, CommRaw)
    keys = [(row.by, row.collective, row.nbytes) for row in raw.rows]
    sizes = {name: (996, 69996) if kind.divided else (8, 1000, 70000) for name, kind in COLLECTIVES.items()}
    assert keys == [(by, name, size) for by in ("gloo", "mpi") for name in COLLECTIVES for size in sizes[name]]
    small = [(each.by, each.collective, each.nbytes) for each in raw.too_small]
    assert small == [(by, name, 8) for by in ("gloo", "mpi") for name in ("reduce_scatter", "all_gather")]


def _check_early_end(world: "World") -> None:
    """The rows measured before a signal, of a case with one idle rank."""
    from hpcai.machine import signals

    reported: list[str] = []

    def report(text: str, share: float) -> None:
        reported.append(text)
        if len(reported) == 5 and world.rank == 0:
            signals._caught["SIGTERM"] = 0.0

    with patch.dict(signals._caught):
        stopped = measured(case_of(1, 2), world, report)
    if world.rank < 2:
        assert isinstance(stopped, Stopped)
        assert len(stopped.raw.rows) == len(reported) == 5
        assert stopped.raw == convert(plain(stopped.raw), CommRaw)
    else:
        assert stopped is None
