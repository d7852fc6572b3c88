"""Faults between hosts, under MPICH and Open MPI: interfaces that do not connect them, signals, ranks that are lost."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_folder import prepared, results
from jobs_on_hosts import LAUNCHERS, PLANTED, ended, launcher, needs_hosts, started, verified_result
from launch import GRACE, ROOT, Finished, wait_until

from benchmarks.hosts import HEAD, Hosts

pytestmark = [pytest.mark.hosts, pytest.mark.exhaustive, needs_hosts]
FAILING = ROOT / "tests/jobs/failing.py"
LONG = ("--set", "EPOCHS=100000", "WATCHDOG=3")
TCP_BETWEEN = {"OMPI_MCA_btl_tcp_if_include": "eth0"}
START = 120.0


def lines(finished: Finished) -> list[str]:
    """What the program says on stderr."""
    return [line for line in finished.stderr.splitlines() if line.startswith("hpcai: ")]


def add_interface(hosts: Hosts, name: str, interface: str, address: str) -> None:
    """An interface of one host that leads nowhere."""
    for command in ("link add {} type bridge", f"address add {address} dev {{}}", "link set {} up"):
        hosts.configure(name, f"ip {command.format(interface)}")


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("of_one_host", [True, False])
def test_a_missing_interface_is_refused_in_one_line(tmp_path: Path, mpi: str, of_one_host: bool) -> None:
    """Also if only one host lacks it: the others must not wait for that one."""
    with Hosts(2, None, launcher=launcher(mpi)) as hosts:
        if of_one_host:
            add_interface(hosts, "node1", "special0", "198.18.9.1/24")
        done = ended(hosts, prepared(tmp_path), env={"GLOO_SOCKET_IFNAME": "special0", **TCP_BETWEEN}, timeout=START)
    (line,) = lines(done)
    host, address = ("node2", "198.18.0.2") if of_one_host else ("node1", "198.18.0.1")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"host {host} has no network interface for a group that spans nodes: of lo (127.0.0.1), " in line
    assert f"eth0 ({address}) GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME admits =special0" in line


def listens(hosts: Hosts, name: str, address: str) -> bool:
    """Whether a process of a host listens at an address."""
    number = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
    table = Path(f"/proc/{hosts.process[name]}/net/tcp").read_text()
    return re.search(rf" {number}:[0-9A-F]+ 00000000:0000 0A ", table) is not None


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_a_signal_while_interfaces_are_tried_ends_the_run_in_order(tmp_path: Path, mpi: str) -> None:
    """The interface that the user names does not connect the hosts, which takes 5 s; the signal comes before that."""
    with Hosts(2, None, PLANTED, launcher(mpi)) as hosts:
        own = {"GLOO_SOCKET_IFNAME": "private0", **TCP_BETWEEN}
        with started(hosts, prepared(tmp_path), env=own) as job:
            assert wait_until(lambda: listens(hosts, "node1", "172.18.0.1"), START), job.output()
            job.process.send_signal(signal.SIGTERM)
            done = job.wait(60)
    assert done.returncode != 0 and done.leftovers == [] and "Traceback" not in done.stderr
    assert not list(tmp_path.glob("results/*/BROKEN_OFF"))


def drop(hosts: Hosts) -> None:
    """The switch forwards nothing between the hosts, which know each other's hardware: packets are lost silently."""
    one, other = hosts.names
    for name, peer in ((one, other), (other, one)):
        shown = Path(f"/proc/{hosts.process[peer]}/root/sys/class/net/eth0/address").read_text().strip()
        hosts.configure(name, f"ip neighbour replace {hosts.address[peer]} lladdr {shown} dev eth0 nud permanent")
    isolate(hosts)


def isolate(hosts: Hosts) -> None:
    """The switch forwards nothing between the hosts; the head reaches both."""
    for name in hosts.names:
        hosts.configure(HEAD, f"bridge link set dev to-{name} isolated on")


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_what_mpi_waits_for_is_said_and_a_signal_ends_it(tmp_path: Path, mpi: str) -> None:
    with Hosts(2, None, launcher=launcher(mpi)) as hosts:
        drop(hosts)
        with started(hosts, prepared(tmp_path)) as job:
            assert wait_until(lambda: "hpcai: " in job.output()[1], 60), job.output()
            (line,) = (line for line in job.output()[1].splitlines() if line.startswith("hpcai: "))
            assert "rank 0 on node1 has waited 30 s for MPI to connect the 2 ranks; node1 has the interfaces " in line
            assert "eth0 (198.18.0.1)" in line and "OMPI_MCA_btl_tcp_if_include for Open MPI, UCX_NET_DEVICES" in line
            job.process.send_signal(signal.SIGTERM)
            done = job.wait(30)
    assert done.returncode != 0 and done.leftovers == [] and not (tmp_path / "results").exists()


def test_a_rank_that_mpi_ends_at_its_start_is_explained(tmp_path: Path) -> None:
    """Hosts that do not answer: MPICH aborts the process in MPI_Init."""
    with Hosts(2, None) as hosts:
        isolate(hosts)
        done = ended(hosts, prepared(tmp_path), timeout=60)
        assert done.returncode != 0
    (line,) = lines(done)
    assert "rank 0 on node1 ended while it waited for MPI to connect the 2 ranks; node1 has the interfaces " in line


def failing(hosts: Hosts, folder: Path, how: str, *settings: Any, ranks: int = 1) -> Finished:
    """The end of a job the second rank of which fails in its training."""
    plan = ["1", "training", "3", how, *LONG, *settings]
    return ended(hosts, prepared(folder), *plan, program=FAILING, ranks=ranks, env=TCP_BETWEEN, timeout=START)


def says(folder: Path) -> Callable[[], str]:
    """What the watchers have written about the end of the run."""
    return lambda: "".join(path.read_text() for path in folder.glob("results/*/BROKEN_OFF"))


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "was killed by signal 9|died"),
        ("stop", r"was stopped by a signal for \d+ s"),
        ("hang", r"made no step for \d+ s"),
    ],
)
def test_a_rank_of_another_host_that_is_lost_ends_the_job_by_name(
    tmp_path: Path, mpi: str, how: str, said: str
) -> None:
    with Hosts(2, None, launcher=launcher(mpi)) as hosts:
        done = failing(hosts, tmp_path, how)
        written = says(tmp_path)
        assert wait_until(written, GRACE * 5), done.stderr
    assert done.returncode != 0 and done.leftovers == []
    assert re.search(rf"rank 1 on node2, group 0, ({said})", written()), written() + done.stderr
    assert how == "kill" or "hpcai: stacks of rank 0 on node1:" in done.stderr


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_other_hosts_go_on_without_a_lost_one(tmp_path: Path, how: str) -> None:
    with Hosts(3, None, launcher=launcher("openmpi", "--with-ft", "mpi")) as hosts:
        done = failing(hosts, tmp_path, how, "EPOCHS=4", "GROUPS=3", "DEGREE=1")
    assert done.returncode == 3 and done.leftovers == [], done.stderr
    assert "Models  : 2 of 3 to the end; a rank was lost of group 1\n" in done.stdout, done.stderr
    assert any(line.startswith("hpcai: rank 1 on node2") for line in lines(done)), done.stderr
    assert verified_result(tmp_path)["tests"][0]["verdict"] == "PASSED"


def test_a_lost_host_is_named(tmp_path: Path) -> None:
    """A host ends with all its processes; the launcher then kills the ranks of the other one."""
    with Hosts(2, None) as hosts, started(hosts, prepared(tmp_path), *LONG, "CHECKPOINT=0.05") as job:
        assert wait_until(lambda: any(tmp_path.glob("results/*/.checkpoints/*/*")), START), job.output()
        hosts.lose("node2")
        done = job.wait(60)
    written = says(tmp_path)
    assert done.returncode != 0 and wait_until(written, GRACE * 5), done.stderr
    assert re.search("(rank 0 on node1|the launcher has ended).*; lost before it: node2\n", written()), (
        written() + done.stderr
    )
    assert f"resume: bench.py --resume {results(tmp_path)}" in written()
