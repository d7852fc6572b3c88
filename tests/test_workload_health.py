"""The workload [health] on real ranks: order statistics over simulated nodes, and slow hosts of network namespaces."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from jobs_on_hosts import needs_hosts
from launch import BENCH, ROOT, run_job
from msgspec import convert
from sample_records import MEMORY, environment, plain

from benchmarks.hosts import Hosts
from hpcai.formulas.node_health import LISTED
from hpcai.inputfile import Case
from hpcai.results.claim import Subject, violated
from hpcai.results.measured import Before, Measured
from hpcai.workloads.health.checks import ALL_REDUCE, LINKS, build
from hpcai.workloads.health.claims import CLAIMS
from hpcai.workloads.health.record import HealthRaw

if TYPE_CHECKING:
    from hpcai.comm.world import World

CASE = Case(1, "health", {"TYPES": ("fp32", "bf16"), "SIDE": 64, "TOLERANCE": 0.5, "SEED": 1, "TELEMETRY": 0.0})
INPUT = "Node health\nSmall\n[health]\n256 SIDE\n0.4 TOLERANCE\n"
SLOW_NODE = ROOT / "tests/jobs/slow_node.py"


def nodes_of(size: int) -> "World":
    """All ranks, as if they were divided into nodes of `size`."""
    from mpi4py import MPI

    from hpcai.comm.world import World

    world = MPI.COMM_WORLD
    return World(world, world.Split(world.rank // size, world.rank), f"host{world.rank // size}")


@pytest.mark.parallel(5)
def test_order_statistics_are_those_of_sorted_values() -> None:
    from mpi4py import MPI

    from hpcai.comm.node_statistics import order_statistics

    comm = MPI.COMM_WORLD
    draw = np.random.default_rng(3)
    for _ in range(10):
        values = draw.choice([0.0, 5e-324, 1.0, draw.lognormal(20, 9), 1e300, np.inf], comm.size)
        places = sorted({0, comm.size // 2, comm.size - 1})
        found = order_statistics(comm, float(values[comm.rank]), places)
        assert found == [sorted(values)[place] for place in places]


@pytest.mark.parallel(5)
def test_statistics_of_nodes_name_the_slowest_rank_of_each() -> None:
    from hpcai.comm.node_statistics import Nodes

    world = nodes_of(2)
    nodes = Nodes(world)
    found = nodes.statistics(float(100 - world.rank))
    of_nodes = {f"host{rank // 2}": (100.0 - rank, rank) for rank in range(world.size)}  # the last rank is the slowest
    values = sorted(value for value, _ in of_nodes.values())
    assert (found.nodes, nodes.count) == (len(of_nodes), len(of_nodes))
    assert (found.minimum, found.median, found.maximum) == (values[0], float(np.median(values)), values[-1])
    assert found.deviation == float(np.median(np.abs(np.array(values) - np.median(values))))
    assert [node.value for node in found.lowest] == values[:LISTED]
    assert all(of_nodes[node.host] == (node.value, node.rank) for node in found.lowest)
    assert nodes.below(float(100 - world.rank), values[-1]) == len(values) - 1
    nodes.free()


@pytest.mark.exhaustive
@pytest.mark.parallel(3)
def test_rates_of_simulated_nodes() -> None:
    """Claims hold; a rate is skipped where a node has one rank, or where there is one node."""
    from hpcai.comm.shutdown import Shutdown
    from hpcai.workloads.health import measure

    for size in (1, 2, 8):
        world = nodes_of(size)
        shutdown = Shutdown(world.comm, 0.0)
        raw = measure.run(CASE, world, torch.device("cpu"), lambda text, share: None, shutdown)
        shutdown.close()
        assert isinstance(raw, HealthRaw) and raw == world.comm.bcast(raw) == convert(plain(raw), HealthRaw)
        count = -(-world.size // size)
        entry = build(CASE, Measured(raw, MEMORY), Before())
        assert list(violated(CLAIMS, Subject(CASE, entry, environment(ranks=world.size, nodes=count)))) == []
        assert all(rates.minimum > 0 for rates in raw.rates)
        fewest = world.size % size or size if count > 1 else world.size
        skipped = {each.quantity for each in raw.skipped} & {ALL_REDUCE, LINKS}
        assert skipped == {*([ALL_REDUCE] if fewest == 1 else []), *([LINKS] if count == 1 else [])}


def run(tmp_path: Path, program: list[Any], count: int = 3, slow_link: str = "") -> tuple[int, str, Any]:
    """Exit code, report, and the table of a run with a rank on each of `count` hosts."""
    (tmp_path / "nodes.dat").write_text(INPUT)
    with Hosts(count, "200mbit") as hosts:
        if slow_link:
            hosts.configure(slow_link, "tc qdisc change dev eth0 root tbf rate 50mbit burst 256kb latency 50ms")
        command = [sys.executable, *map(str, program), str(tmp_path / "nodes.dat")]
        done = hosts.run(command, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path, timeout=200)
    (folder,) = (tmp_path / "results").iterdir()
    verified = run_job([BENCH, "--verify", folder], None)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return done.returncode, done.stdout, json.loads((folder / "result.json").read_text())["tables"][0]


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
def test_sound_hosts_pass(tmp_path: Path) -> None:
    code, report, table = run(tmp_path, [BENCH])
    assert (code, table["verdict"], table["raw"]["nodes"]) == (0, "PASSED", 3), report


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
def test_a_host_with_a_slow_link_is_named_and_fails(tmp_path: Path) -> None:
    code, report, table = run(tmp_path, [BENCH], slow_link="node2")
    assert (code, table["verdict"]) == (1, "FAILED")
    slow = [line for line in report.splitlines() if line.startswith("  slow: ")]
    assert len(slow) == 1 and slow[0].startswith(f"  slow: {LINKS} of node2, rank 1: ")


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
@pytest.mark.parametrize(("fault", "says"), [("slow", "of the median, 3 measurements"), ("wrong", "wrong numbers")])
def test_a_host_with_slow_or_wrong_kernels_is_named_and_fails(tmp_path: Path, fault: str, says: str) -> None:
    code, report, table = run(tmp_path, [SLOW_NODE, fault, "node3"])
    assert (code, table["verdict"]) == (1, "FAILED")
    slow = [line for line in report.splitlines() if line.startswith("  slow: ")]
    assert len(slow) == 1 and slow[0].startswith("  slow: gemm fp32 of node3, rank 2: ") and says in slow[0]
