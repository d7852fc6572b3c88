"""Bytes per second of a node's links, by files that count as /sys does, with planted faults; by the real loopback."""

from collections.abc import Callable
from pathlib import Path

import pytest
from traffic_files import Interfaces

from hpcai import clock
from hpcai.machine.node_sensors import NAMES, NodeSensors
from hpcai.machine.nvml import Gpus
from hpcai.machine.traffic_counters import TrafficCounters
from hpcai.record.machine import TRAFFIC

NOTHING = (None, None)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interfaces:
    """A node with one interface and the loopback; two seconds pass between two readings."""
    readings = iter(range(0, 1000, 2))
    monkeypatch.setattr(clock, "now", lambda: float(next(readings)))
    found = Interfaces(tmp_path)
    found.add("lo", device=False)
    found.add("eth0")
    return found


def rates(tree: Interfaces, change: Callable[[Interfaces], object]) -> tuple[float | None, ...]:
    """The rates over a change of the counters."""
    counters = TrafficCounters(Gpus([]), tree.root)
    change(tree)
    return counters.rates()


def move(tree: Interfaces) -> None:
    tree.set("eth0", 1000, 600)
    tree.set("lo", 40, 40)


def test_rates_are_bytes_over_seconds(tree: Interfaces) -> None:
    assert rates(tree, move) == (500.0, 300.0, 20.0, *NOTHING)


def test_each_interval_counts_from_the_one_before(tree: Interfaces) -> None:
    counters = TrafficCounters(Gpus([]), tree.root)
    move(tree)
    assert counters.rates()[0] == 500.0
    assert counters.rates()[0] == 0.0
    tree.set("eth0", 2000, 600)
    counters.begin()
    assert counters.rates()[0] == 0.0


def test_no_byte_counts_twice(tree: Interfaces) -> None:
    """Bond, bridge, VLAN and virtual pair carry what the hardware carries; IP over InfiniBand what its port does."""

    def much(name: str) -> None:
        tree.set(name, 10**9, 10**9)

    for name in ("bond0", "br0", "eth0.5"):
        tree.add(name, device=False, below="eth0")
    tree.add("veth7", device=False)
    tree.add("ib0", kind=32)
    tree.set_port("mlx5_0", 0, 0)
    found = rates(tree, lambda it: (move(it), *map(much, ("bond0", "br0", "eth0.5", "veth7", "ib0"))))
    assert found[:2] == (500.0, 300.0)
    assert rates(tree, lambda it: it.set_port("mlx5_0", 100, 50))[:2] == (200.0, 100.0)


def test_of_two_interfaces_with_a_device_the_upper_one_counts(tree: Interfaces) -> None:
    """As of a virtual machine whose interface hands its traffic to one of hardware."""
    tree.add("enP1")
    (tree.root / "class/net/eth0/lower_enP1").symlink_to(tree.root / "class/net/enP1")
    assert rates(tree, lambda it: (move(it), it.set("enP1", 900, 500)))[:2] == (500.0, 300.0)


@pytest.mark.parametrize("device", ["class/infiniband/efa_0/ports/1/counters", "class/cxi/cxi0"])
def test_rdma_without_counters_is_unknown(tree: Interfaces, device: str) -> None:
    (tree.root / device).mkdir(parents=True)
    assert rates(tree, move) == (None, None, 20.0, *NOTHING)


def test_ip_over_infiniband_counts_without_counters_of_its_port(tree: Interfaces) -> None:
    tree.add("ib0", kind=32)
    assert rates(tree, lambda it: it.set("ib0", 10, 20))[:2] == (5.0, 10.0)


def test_a_container_has_no_interface_of_hardware(tmp_path: Path, tree: Interfaces) -> None:
    inside = Interfaces(tmp_path / "container")
    for name in ("lo", "eth0", "eth1"):
        inside.add(name, device=False)
    inside.add("br0", device=False, below="eth1")
    found = rates(inside, lambda it: [it.set(name, 100, 100) for name in ("eth0", "eth1", "br0")])
    assert found[:3] == (100.0, 100.0, 0.0)


FAULTS = {
    "a reset counter": lambda it: it.set("eth0", 5, 700),
    "wrap-around at 32 bits": lambda it: it.set("eth0", (2**32 - 1 + 1000) % 2**32, 700),
    "a missing file": lambda it: it.counter("eth0", "rx").unlink(),
    "no number": lambda it: it.counter("eth0", "rx").write_text("many\n"),
    "an empty file": lambda it: it.counter("eth0", "rx").write_text(""),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=[name.replace(" ", "-") for name in FAULTS])
def test_an_unknown_interval_is_none_and_the_next_one_known(
    fault: Callable[[Interfaces], object], tree: Interfaces
) -> None:
    tree.set("eth0", 2**32 - 1, 500)
    counters = TrafficCounters(Gpus([]), tree.root)
    fault(tree)
    assert counters.rates()[0] is None
    tree.set("eth0", 2000, 700)
    counters.rates()
    tree.set("eth0", 2004, 700)
    assert counters.rates() == (2.0, 0.0, 0.0, *NOTHING)


def test_an_interface_that_appears_makes_the_interval_unknown(tree: Interfaces) -> None:
    def appear(it: Interfaces) -> None:
        it.add("eth1")
        it.set("eth1", 10**12, 10**12)

    assert rates(tree, appear)[:3] == (None, None, 0.0)


def test_a_port_that_cannot_be_read_makes_the_sum_unknown(tree: Interfaces) -> None:
    tree.set_port("mlx5_0", 1, 1)
    port = tree.root / "class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    assert rates(tree, lambda _: port.write_text("N/A"))[:2] == (None, 0.0)


def test_nothing_is_none_and_not_zero(tmp_path: Path) -> None:
    assert TrafficCounters(Gpus([]), tmp_path).rates() == (None,) * len(TRAFFIC)
    alone = Interfaces(tmp_path / "alone")
    alone.add("lo", device=False)
    assert TrafficCounters(Gpus([]), alone.root).rates() == (None, None, 0.0, *NOTHING)


def test_sensors_end_with_the_traffic(tree: Interfaces) -> None:
    sensors = NodeSensors([0], [], system=tree.root)
    move(tree)
    assert dict(zip(NAMES, sensors.read(), strict=True))["sent_between"] == 300.0


@pytest.mark.parallel(2)
def test_a_real_all_reduce_by_gloo_moves_at_least_the_computed_bytes() -> None:
    """By the kernel's own counter of the loopback, which other processes can only raise."""
    import torch
    from assumed_nodes import grouped
    from mpi4py import MPI
    from torch import distributed

    from hpcai.formulas.roofline import moved_in_all_reduce

    comm, times, elements = MPI.COMM_WORLD, 20, 2**18
    with grouped(comm.size):
        vector = torch.ones(elements)
        distributed.all_reduce(vector)
        comm.Barrier()
        begun, counters = clock.now(), TrafficCounters(Gpus([]))  # by a time no shorter than the counters' own
        comm.Barrier()
        for _ in range(times):
            distributed.all_reduce(vector)
        comm.Barrier()
        rate, seconds = counters.rates()[2], clock.now() - begun
        comm.Barrier()
    if rate is None:
        pytest.skip("NO COUNTER OF THE LOOPBACK: REAL TRAFFIC NOT TESTED")
    computed = comm.size * times * moved_in_all_reduce(vector.nbytes, comm.size)
    assert rate * seconds >= 0.99 * computed
