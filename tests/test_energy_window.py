"""Energy of a region by fake files of each node: read once per node, of the grid's nodes only; planted faults."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from energy_files import Tree, two_packages, used
from msgspec import ValidationError, structs

from hpcai.machine import energy_counters
from hpcai.machine.energy_counters import Counter
from hpcai.record.energy import Energy
from hpcai.results.energy import energy_scores, unscored

USED = 4000  # joules of node 0; node 1 uses 1000 more, and so on
FAULTS = ("counted per rank", "idle nodes included")
MEASURED = Energy(
    source="pm_counters", covers="node", nodes=2, begun="2026-01-01T00:00:00.000+00:00", seconds=4.0, joules=1000.0
)


@pytest.fixture(autouse=True)
def counting_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files here count the joules of minutes at once."""
    monkeypatch.setattr(energy_counters, "LATE", 1e6)



class Awake:
    """A shutdown that never comes."""

    def barrier(self, comm: Any) -> None:
        comm.Barrier()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder in place of /sys, the same on the ranks of a node."""
    from mpi4py import MPI

    return Path(MPI.COMM_WORLD.bcast(str(tmp_path)))


def measured(
    setting: float | str, root: Path, per_node: int, use: Callable[[Path, int], None], fault: str = "", idle: int = 0
) -> tuple[Energy, int]:
    """Energy of a region on nodes of so many ranks, the last `idle` nodes not in the grid; and the nodes of the grid.

    `use` lets the counters of a node go on.
    """
    from mpi4py import MPI

    from hpcai.training.energy_window import EnergyWindow

    comm = MPI.COMM_WORLD
    node = comm.rank // per_node
    nodes = -(-comm.size // per_node)
    active = nodes if fault == "idle nodes included" else nodes - idle
    grid = comm.Split(0 if node < active else MPI.UNDEFINED, comm.rank)
    own, awake = root / f"node{node}", Awake()
    if comm.rank % per_node == 0:
        two_packages(own)
    comm.Barrier()
    window: Any = None
    if grid != MPI.COMM_NULL:
        window = EnergyWindow(setting, grid, comm.rank if fault == "counted per rank" else node, "cpu", own)
    found: Energy | None = None
    with window.region(awake) if window else nothing():
        comm.Barrier()
        if comm.rank % per_node == 0:
            use(own, node)
        comm.Barrier()
    if window:
        found = window.measured()
        window.free()
        grid.Free()
    return comm.bcast(found), nodes - idle


@contextmanager
def nothing() -> Iterator[None]:
    """An idle rank."""
    yield


def used_by_node(own: Path, node: int) -> None:
    """Energy as a node uses it; the counter of a package starts again from 0."""
    tree = Tree(own)
    counts = {path.parent.name: int(path.read_text()) for path in own.glob("class/powercap/*/energy_uj")}
    tree._counts.update(counts)
    used(tree, USED + 1000 * node)


def expected(nodes: int) -> float:
    return float(sum(USED + 1000 * node for node in range(nodes)))


@pytest.mark.parallel(4)
@pytest.mark.parametrize("per_node", [1, 2])
def test_nodes_are_summed_once_each(per_node: int, root: Path) -> None:
    found, nodes = measured("auto", root, per_node, used_by_node)
    assert (found.source, found.covers, found.nodes) == ("rapl", "packages and DRAM", nodes)
    assert found.joules == pytest.approx(expected(nodes), abs=1e-3) and found.reason is None


@pytest.mark.parallel(4)
def test_idle_nodes_are_not_counted(root: Path) -> None:
    from mpi4py import MPI

    found, nodes = measured("auto", root, 1, used_by_node, idle=1 if MPI.COMM_WORLD.size > 1 else 0)
    assert found.nodes == nodes and found.joules == pytest.approx(expected(nodes), abs=1e-3)


def ignoring(domain: Any, count: int) -> int:
    """A domain that forgets that its counter started again."""
    return count - int(domain._count)


@pytest.mark.parallel(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_changes_the_joules(fault: str, root: Path) -> None:
    """Each fault makes another number than the one that the tests above demand."""
    from mpi4py import MPI

    if MPI.COMM_WORLD.size < 2:
        pytest.skip("needs two ranks")
    per_node, idle = (2, 0) if fault == "counted per rank" else (1, 1)
    found, nodes = measured("auto", root, per_node, used_by_node, fault, idle)
    assert found.joules != pytest.approx(expected(nodes), abs=1.0)


@pytest.mark.parallel(2)
def test_an_ignored_wrap_around_is_a_planted_fault_that_the_record_refuses(root: Path) -> None:
    with patch.object(energy_counters._Domain, "_since", ignoring), pytest.raises(ValidationError, match="joules"):
        measured("auto", root, 1, used_by_node)


@pytest.mark.parallel(4)
def test_fixed_watts_are_those_of_each_node(root: Path) -> None:
    found, nodes = measured(250.0, root, 2, used_by_node)
    assert (found.source, found.covers, found.nodes) == ("fixed", "node", nodes)
    assert found.joules == pytest.approx(250 * nodes * found.seconds)


@pytest.mark.parallel(4)
@pytest.mark.parametrize("setting", ["none", "auto"])
def test_without_a_source_energy_is_unknown_not_0(setting: str, root: Path) -> None:
    with patch.object(energy_counters, "Rapl", refused):
        found, _ = measured(setting, root, 1, used_by_node)
    assert found.joules is found.source is found.covers is None
    said = "ENERGY none" if setting == "none" else "no source on every node: .*energy_uj: Permission denied"
    assert found.reason and re.match(said, found.reason)


def refused(root: Path) -> Counter:
    raise energy_counters.NotCountedError(f"{root}/class/powercap/intel-rapl:0/energy_uj: Permission denied")


@pytest.mark.parallel(4)
def test_a_counter_that_fails_on_one_node_leaves_all_unknown(root: Path) -> None:
    def use(own: Path, node: int) -> None:
        used_by_node(own, node)
        if node == 0:
            (own / "class/powercap/intel-rapl:1/energy_uj").unlink()

    found, _ = measured("auto", root, 1, use)
    assert found.source == "rapl" and found.joules is None and "No such file" in (found.reason or "")


@pytest.mark.parallel(2)
@pytest.mark.parametrize("covers", [True, False])
def test_a_meter_is_read_after_the_region_and_aligned_by_utc(covers: bool, root: Path) -> None:
    from mpi4py import MPI

    from hpcai import clock

    path = root / "meter.csv"

    def use(own: Path, node: int) -> None:
        now = clock.utc_instant()
        times = [now + timedelta(seconds=at) for at in range(-60, 600 if covers else -30, 20)]
        path.write_text("".join(f"{time.isoformat()},500\n" for time in times))

    found, _ = measured(f"meter:{path}", root, max(1, MPI.COMM_WORLD.size), use)
    assert (found.source, found.covers) == ("meter", "node")
    if covers:
        assert found.joules == pytest.approx(500 * found.seconds, rel=1e-3)
    else:
        assert found.joules is None and "does not cover" in (found.reason or "")


def test_scores_are_of_whole_nodes_and_two_seconds_at_least() -> None:
    scores = energy_scores(MEASURED, 5e12, 100, 4)
    assert scores == (250.0, 2e10, 10.0, 250.0) and unscored(MEASURED) == ""


@pytest.mark.parametrize(
    ("changes", "watts", "reason"),
    [
        ({"seconds": 1.99}, 1000 / 1.99, "a region of 1.99 s is shorter than 2 s"),
        ({"source": "nvml", "covers": "GPUs"}, 250.0, "it is that of the GPUs, not of whole nodes"),
        ({"source": "rapl", "covers": "packages"}, 250.0, "it is that of the packages, not of whole nodes"),
        ({"joules": 0.0}, 0.0, "the source counted nothing"),
        ({"source": None, "covers": None, "joules": None, "reason": "ENERGY none"}, None, "ENERGY none"),
    ],
)
def test_other_energy_has_no_scores(changes: dict[str, Any], watts: float | None, reason: str) -> None:
    energy = structs.replace(MEASURED, **changes)
    assert energy_scores(energy, 5e12, 100, 4) == (watts, None, None, None) and unscored(energy) == reason


def test_older_results_have_no_energy() -> None:
    assert energy_scores(None, 5e12, 100, 4) == (None,) * 4 and unscored(None) == "not recorded"
