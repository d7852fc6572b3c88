"""Telemetry of several nodes: those of the test's grid only, over time, and each node's own; claims about them."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import h5py
import pytest
from examples.training import stored, violated_claims
from msgspec import convert, to_builtins
from msgspec.structs import replace
from sample_records import UNKNOWN
from small_run import golden, rebuilt

from hpcai.claims.node_claims import OF_NODES
from hpcai.machine.node_sensors import NAMES
from hpcai.machine.resampling import common_times, resampled
from hpcai.machine.telemetry import means
from hpcai.record.loading import result_of
from hpcai.record.machine import OverNodes, Telemetry
from hpcai.report import files
from hpcai.results.alterations import changed
from hpcai.results.claim import Subject

Row = tuple[float | None, ...]
ROWS: tuple[tuple[Row, ...], ...] = (
    ((1.0, 0.5, 100, *UNKNOWN), (2.0, 0.7, 100, *UNKNOWN)),
    ((0.5, 0.9, 300, *UNKNOWN), (2.5, 0.1, 100, *UNKNOWN)),
    ((1.0, 0.2, 700, *UNKNOWN), (1.8, 0.4, None, *UNKNOWN), (2.2, 0.4, 5, *UNKNOWN)),
)
FAULTS = ("idle nodes included", "every rank a node")


def together(rows: Any, nodes: int, per_node: int = 1) -> OverNodes | None:
    """Samples of nodes of so many ranks brought together; the first rank of each node has some."""
    from mpi4py import MPI

    from hpcai.monitoring.over_nodes import over_nodes

    rank = MPI.COMM_WORLD.rank
    samples = rank % per_node == 0 and rank // per_node < nodes
    return over_nodes(MPI.COMM_WORLD, rows[rank // per_node] if samples else None, nodes)


@pytest.mark.parallel(3)
def test_mean_least_and_most_are_those_of_the_nodes_at_common_times() -> None:
    from mpi4py import MPI

    if MPI.COMM_WORLD.size < 3:
        pytest.skip("FEWER THAN 3 RANKS: THREE NODES NOT TESTED")
    found = together(ROWS, 3)
    assert found is not None
    assert found.seconds == (1.0, 2.0)
    columns = [[values[0] for values in rows] for rows in (found.least, found.mean, found.most)]
    # nodes: 0.5, 0.7; then 0.9 and 0.1 of an interval each, 0.1; then 0.2, 0.4
    assert columns == [[0.2, 0.1], [0.4, 0.4], [0.5, 0.7]]
    assert [values[1] for values in found.mean] == [333, None]
    assert {values[2:] for values in found.most} == {UNKNOWN}


@pytest.mark.parallel(2)
def test_one_node_has_nothing_to_bring_together() -> None:
    assert together(ROWS, 1) is None


@pytest.mark.parallel(4)
@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_only_nodes_of_the_grid_are_sampled(fault: str) -> None:
    """Nodes of two ranks, of which the last is idle; all nodes take part in a table."""
    import torch
    from mpi4py import MPI

    from hpcai.comm.world import World
    from hpcai.inputfile import Case
    from hpcai.machine.affinity import Placement, own_cpus
    from hpcai.monitoring.node_telemetry import Monitor

    comm = MPI.COMM_WORLD
    if comm.size < 4:
        pytest.skip("FEWER THAN 4 RANKS: AN IDLE NODE NOT TESTED")
    per_node = 1 if fault == "every rank a node" else 2
    number = comm.rank // per_node
    world = World(comm, comm.Split(number, comm.rank), f"node {number}")
    watch: Any = Monitor(world, Placement(own_cpus(), 1, 0), torch.device("cpu"), 30.0)
    if watch._gauges is not None:
        own = (0.1 * (1 + number), 100 * (1 + number), *UNKNOWN)
        watch._gauges = SimpleNamespace(begin=lambda: None, read=lambda: own)
    idle = 0 if fault == "idle nodes included" else 2
    nodes = (comm.size + 1) // 2 - (comm.size // 2 * 2 != comm.size) - 1
    grid = {"GROUPS": comm.size // 2 * 2 - idle, "DEGREE": 1, "MAPPING": "row"}
    seen = sampled(watch, Case(1, "ensemble", grid))
    assert (seen.nodes == nodes) == (not fault)
    if fault:
        return
    assert seen.average.memory_bytes == 50 * (1 + nodes) and seen.maximum.memory_bytes == 100 * nodes
    assert (seen.over_nodes is None) == (nodes == 1)
    every = sampled(watch, Case(1, "kernels", {}))
    assert every.nodes == -(-comm.size // 2) and every.over_nodes is not None
    assert every.over_nodes.most[0][1] == 100 * every.nodes and every.over_nodes.least[0][1] == 100
    if comm.rank == 0:
        assert [node.host for node in every.further] == [f"node {place}" for place in range(1, every.nodes)]
        assert [node.series[0][2] for node in every.further] == [100 * (1 + place) for place in range(1, every.nodes)]


def sampled(watch: Any, case: Any) -> Telemetry:
    """Telemetry of a block that does nothing."""
    with watch.watching(case):
        Event().wait(0.02)
    found: Telemetry = watch.measured()
    return found


@pytest.mark.parallel(2)
def test_of_many_nodes_the_samples_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI

    from hpcai.comm.world import World
    from hpcai.monitoring import over_nodes

    comm = MPI.COMM_WORLD
    world = World(comm, MPI.COMM_SELF, f"node {comm.rank}")
    kept = over_nodes.further(world, ROWS[0], comm.size)
    assert len(kept) == (comm.size - 1 if comm.rank == 0 else 0)
    monkeypatch.setattr(over_nodes, "MOST_NODES", comm.size - 1)
    assert over_nodes.further(world, ROWS[0], comm.size) == ()


def of_two_nodes() -> Subject:
    """A stored test of two models of one rank, as if on two nodes."""
    alone = stored("ensemble")[0]
    first = alone.entry.telemetry
    other = [[row[0] + 0.1, row[1] / 2, row[2] + 1000, *row[3:]] for row in first.series]
    ends = common_times(first.series[-1][0], len(other))
    nodes = [resampled(first.series, ends), resampled(other, ends)]
    columns = [[[*zip(*pair, strict=True)] for pair in zip(*nodes, strict=True)]][0]
    made = {
        "seconds": ends,
        "mean": [[None if None in pair else sum(pair) / 2 for pair in at_time] for at_time in columns],
        "least": [[None if None in pair else min(pair) for pair in at_time] for at_time in columns],
        "most": [[None if None in pair else max(pair) for pair in at_time] for at_time in columns],
    }
    both = [means(first.series), means(other)]
    average = [None if None in pair else sum(pair) / 2 for pair in zip(*both, strict=True)]  # type: ignore[arg-type]
    rows = [*first.series, *other]
    highest = [None if None in column else max(column) for column in [*zip(*rows, strict=True)][1:]]
    fields = {
        "nodes": 2,
        "average": dict(zip(NAMES, average, strict=True)),
        "maximum": dict(zip(NAMES, highest, strict=True)),
        "over_nodes": made,
        "further": [{"host": "another", "series": other}],
    }
    telemetry = convert({**to_builtins(first), **fields}, Telemetry)
    return Subject(alone.case, replace(alone.entry, telemetry=telemetry), replace(alone.environment, nodes=2))


def test_two_nodes_fulfil_the_claims() -> None:
    assert violated_claims(of_two_nodes()) == []


@pytest.mark.parametrize(
    ("path", "value", "claim"),
    [
        ("nodes", 3, "at most the nodes of the grid"),
        ("over_nodes", None, "samples of every node, of a limited number"),
        ("further", [], "samples of every node, of a limited number"),
        ("over_nodes.seconds.0", 1e6, "times of the nodes increase, with a value each"),
        ("over_nodes.least.0.0", 0.9999999, "means between the least and the most"),
        ("over_nodes.most.0.1", None, "means between the least and the most"),
        ("over_nodes.most.0.1", 1e15, "over nodes, of the nodes' samples"),
        ("over_nodes.mean.0.1", 0.0, "over nodes, of the nodes' samples"),
        ("further.0.series.0.2", 0, "over nodes, of the nodes' samples"),
        ("average.memory_bytes", 5.0, "averages, of the series"),
        ("maximum.memory_bytes", 1e15, "maxima, of the series"),
    ],
)
def test_an_altered_number_of_several_nodes_is_refused(path: str, value: Any, claim: str) -> None:
    assert f"telemetry: {claim}" in violated_claims(of_two_nodes(), changed(f"telemetry.{path}", value))


def test_more_nodes_than_ranks_of_the_grid_are_refused() -> None:
    two = of_two_nodes()
    entry = replace(two.entry, p=1)
    claim = next(each for each in OF_NODES if "nodes of the grid" in each.text)
    assert claim.holds(two) and not claim.holds(Subject(two.case, entry, two.environment))


def test_the_file_has_the_nodes_over_time(tmp_path: Any) -> None:
    document = golden()
    telemetry = to_builtins(of_two_nodes().entry.telemetry)
    document["tests"][0]["telemetry"] = telemetry
    files.write(tmp_path, result_of(rebuilt(document)))
    with h5py.File(tmp_path / "series.h5") as file:
        own = file["test-1/telemetry"]
        assert {"mean", "least", "most", "node-2", "seconds"} <= {*own}
        assert own["mean/seconds"][()].tolist() == [*telemetry["over_nodes"]["seconds"]]
        assert own["most/memory_bytes"][()].tolist() == [row[1] for row in telemetry["over_nodes"]["most"]]
        assert own["node-2/processors"][()].tolist() == [row[1] for row in telemetry["further"][0]["series"]]
        assert "received_nvlink" not in own and own["sent_within"].attrs["unit"] == "byte/s"
