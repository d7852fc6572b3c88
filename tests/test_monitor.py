"""Nodes sampled while a block runs: once per node, whatever its ranks, and collected on every rank."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import to_builtins

from hpcai.machine.node_sensors import NAMES, Values
from hpcai.record.machine import TRAFFIC


def monitor(world: Any, interval: float = 30.0) -> Any:
    import torch

    from hpcai.machine.affinity import Placement, own_cpus
    from hpcai.monitoring.node_telemetry import Monitor

    return Monitor(world, Placement(own_cpus(), 1, 0), torch.device("cpu"), interval)


def case(groups: int | None = None) -> Any:
    """A test of so many models of one rank; by default one on each rank."""
    from mpi4py import MPI

    from hpcai.inputfile import Case

    return Case(1, "ensemble", {"GROUPS": groups or MPI.COMM_WORLD.size, "DEGREE": 1, "MAPPING": "row"})


def of_all(*values: float | None) -> Values:
    """These quantities, and None for all others."""
    return (*values, *(None for _ in NAMES[len(values) :]))


def measured(watch: Any) -> Any:
    """Its measurements as JSON."""
    return to_builtins(watch.measured())


def threads() -> int:
    return sum(thread.name == "telemetry" for thread in threading.enumerate())


@pytest.mark.parallel(2)
def test_the_ranks_of_a_node_sample_once() -> None:
    from mpi4py import MPI

    from hpcai.comm.world import World

    comm = MPI.COMM_WORLD
    watch = monitor(World(comm, comm, "here"))
    with watch.watching(case()):
        assert comm.allreduce(threads()) == 1
        threading.Event().wait(0.6)
    assert threads() == 0
    seen = measured(watch)
    assert seen["nodes"] == 1 and list(seen["average"]) == list(seen["maximum"]) == list(NAMES)
    assert seen["average"]["gpus"] is seen["maximum"]["gpus"] is seen["average"]["gpu_memory_bytes"] is None
    assert 0 <= seen["average"]["processors"] <= seen["maximum"]["processors"] <= 1
    assert 0 < seen["average"]["memory_bytes"] <= seen["maximum"]["memory_bytes"]
    assert comm.allreduce(int(seen["samples"] > 1 and len(seen["series"]) == seen["samples"])) == 1
    assert len({str(average) for average in comm.allgather(seen["average"])}) == 1


@pytest.mark.parallel(3)
def test_samples_of_all_nodes_are_collected() -> None:
    """Every rank a node of its own, of which the last one reports nothing of its GPUs."""
    from mpi4py import MPI

    from hpcai.comm.world import World

    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    watch = monitor(World(comm, comm.Split(rank), f"node {rank}"))
    gpus = None if rank == size - 1 else 0.5
    own = of_all((1 + rank) / 10, 100 * (1 + rank), gpus, 7)
    watch._gauges = SimpleNamespace(begin=lambda: None, read=lambda: own)
    with watch.watching(case()):
        threading.Event().wait(0.01)
    seen = measured(watch)
    assert seen["nodes"] == size
    assert seen["average"] == {
        "processors": pytest.approx((size + 1) / 20),
        "memory_bytes": 50 * (size + 1),
        "gpus": None,
        "gpu_memory_bytes": 7,
        **dict.fromkeys(TRAFFIC),
    }
    most = {"processors": size / 10, "memory_bytes": 100 * size, "gpus": None, "gpu_memory_bytes": 7}
    assert seen["maximum"] == most | dict.fromkeys(TRAFFIC)
    assert seen["samples"] == 1 and seen["series"][0][1:] == own


@pytest.mark.parallel(3)
def test_the_average_of_equal_nodes_is_their_maximum() -> None:
    """Not larger: three times 0.1 is rounded up."""
    from mpi4py import MPI

    from hpcai.comm.world import World

    comm = MPI.COMM_WORLD
    watch = monitor(World(comm, comm.Split(comm.rank), f"node {comm.rank}"))
    watch._gauges = SimpleNamespace(begin=lambda: None, read=lambda: of_all(0.1, 7))
    with watch.watching(case()):
        threading.Event().wait(0.01)
    seen = measured(watch)
    assert seen["average"]["processors"] == seen["maximum"]["processors"] == 0.1


@pytest.mark.parallel(2)
def test_an_interval_of_0_samples_nothing() -> None:
    from mpi4py import MPI

    from hpcai.comm.world import World

    watch = monitor(World(MPI.COMM_WORLD, MPI.COMM_WORLD, "here"), 0.0)
    with watch.watching(case()):
        assert threads() == 0
    assert watch.measured() is None


@pytest.mark.parallel(2)
def test_the_thread_ends_when_a_test_fails() -> None:
    from mpi4py import MPI

    from hpcai.comm.world import World

    watch = monitor(World(MPI.COMM_WORLD, MPI.COMM_WORLD, "here"))
    with pytest.raises(ZeroDivisionError), watch.watching(case()):
        raise ZeroDivisionError
    assert threads() == 0


@pytest.mark.parallel(2)
def test_a_second_test_has_samples_of_its_own() -> None:
    from mpi4py import MPI

    from hpcai.comm.world import World

    watch = monitor(World(MPI.COMM_WORLD, MPI.COMM_WORLD, "here"))
    lengths = []
    for seconds in (0.6, 0.02):
        with watch.watching(case()):
            threading.Event().wait(seconds)
        lengths.append(measured(watch)["samples"])
    assert lengths[1] == (1 if MPI.COMM_WORLD.rank == 0 else 0) <= lengths[0]
