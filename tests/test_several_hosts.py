"""Jobs on two hosts, made of network namespaces: which interfaces groups use, and what is refused."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jobs_on_hosts import NO_NAMES, PLANTED, needs_hosts
from launch import BENCH, GRACE, ROOT, run_job, wait_until

from benchmarks.hosts import HEAD, Hosts, no_namespaces
from hpcai.comm import reachability

INPUT = """\
One model on two hosts
No header
[ensemble]
generated DATASET
8 RESOLUTION
64 SAMPLES
1 GROUPS
2 DEGREE
16 BATCH
1 EPOCHS
"""
WITHIN_AND_ACROSS = """\
Groups within hosts, then across them
No header
[ensemble]
generated DATASET
8 RESOLUTION
64 SAMPLES
2 GROUPS
2 DEGREE
row column MAPPING
16 BATCH
1 EPOCHS
[comm]
1 GROUPS
4 DEGREE
4K 1M SIZES
"""
GRADIENTS = 77_850 * 4  # bytes of resnet8's for ten classes


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
def test_a_group_uses_the_interface_that_connects_its_hosts(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_text(INPUT)
    command = [sys.executable, str(BENCH), str(tmp_path / "x.dat")]
    with Hosts(2, None, PLANTED) as hosts:
        hosts.table.write_text(f"{NO_NAMES}{hosts.address[HEAD]} {HEAD}\n")
        finished = hosts.run(command, cwd=tmp_path, timeout=120)
        assert finished.returncode == 0, finished.stderr
        assert "End of Tests." in finished.stdout
        assert hosts.sent("node1") > 4 * GRADIENTS  # two steps at least, and the warm-up


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
@pytest.mark.parametrize("name", PLANTED)
def test_a_group_over_an_interface_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.dat").write_text(INPUT)
    command = [sys.executable, str(BENCH), str(tmp_path / "x.dat")]
    with Hosts(2, None, PLANTED) as hosts:
        refused = hosts.run(command, env={"GLOO_SOCKET_IFNAME": name}, cwd=tmp_path, timeout=60)
    assert refused.returncode == 2
    (line,) = (line for line in refused.stderr.splitlines() if line.startswith("hpcai: "))
    address = PLANTED[name].format(1).split("/")[0]
    assert "host node1 has no network interface that all other hosts of a group can connect to: " in line
    assert f"tried {name} ({address}); rank 1 on node2 could not connect to the last one in 5 s; allowed: " in line
    assert "node1 has lo (127.0.0.1), " in line and "eth0 (198.18.0.1)" in line


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
def test_groups_within_and_across_hosts_pass_and_verify(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_text(WITHIN_AND_ACROSS)
    with Hosts(2, None) as hosts:
        finished = hosts.run([sys.executable, str(BENCH), str(tmp_path / "x.dat")], 2, cwd=tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "Machine : 2 nodes" in finished.stdout
    assert "3 tests completed and passed residual checks" in finished.stdout
    (result,) = (tmp_path / "results").iterdir()
    verified = run_job([BENCH, "--verify", result], None)
    assert verified.returncode == 0, verified.stdout
    across = json.loads((result / "result.json").read_text())["tests"][1]
    seen, sent = across["telemetry"], across["raw"]["sent"]["bytes"]
    assert seen["nodes"] == 2 and [node["host"] for node in seen["further"]] == ["node2"] and seen["over_nodes"]
    computed = sum(sent.values()) * across["raw"]["work"]["steps"] * across["q"]
    assert seen["average"]["sent_between"] * seen["series"][-1][0] * seen["nodes"] > 0.5 * computed > 0


@pytest.mark.slow
@pytest.mark.hosts
@needs_hosts
def test_a_rank_that_dies_on_another_host_is_named(tmp_path: Path) -> None:
    """By the watcher, whose stderr is a file here: hydra sometimes ends before it has forwarded the last line."""
    said = tmp_path / "stderr"
    program = (
        f"import os, time; os.dup2(os.open({str(said)!r}, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 2); "
        "from hpcai.comm import rank_watch, world as w; world = w.join(); "
        "rank_watch.begin(world.comm, world.node, world.host); world.comm.Barrier(); "
        "os.kill(os.getpid(), 9) if world.rank else time.sleep(60)"
    )
    with Hosts(2, None, PLANTED) as hosts:
        hosts.table.write_text(f"{NO_NAMES}{hosts.address[HEAD]} {HEAD}\n")
        finished = hosts.run([sys.executable, "-c", program], env={"PYTHONPATH": str(ROOT)}, timeout=60)
        assert wait_until(lambda: "rank 1" in said.read_text(), GRACE), said.read_text() + finished.stderr
    assert finished.returncode != 0
    assert re.search(r"rank 1 on node2 (was killed by signal 9|died .*) outside of the tests", said.read_text())


@pytest.mark.hosts
@needs_hosts
def test_hosts_have_a_shaped_link_and_leave_nothing() -> None:
    with contextlib.suppress(KeyboardInterrupt), Hosts(3) as hosts:
        numbers, folder = [*hosts.process.values()], hosts.table.parent
        for name in hosts.names:
            assert inside(hosts, name, "hostname").strip() == name
            assert "tbf" in inside(hosts, name, "tc qdisc")
            assert "rate 1Gbit" in inside(hosts, name, "tc qdisc")
        raise KeyboardInterrupt
    assert not folder.exists()
    assert wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in numbers), 5)


def inside(hosts: Hosts, name: str, command: str) -> str:
    """What a command prints on a host."""
    return subprocess.run(hosts.inside(name, command.split()), capture_output=True, text=True, check=True).stdout


KILLED = """
import time
from benchmarks.hosts import Hosts
hosts = Hosts(2).__enter__()
print(*hosts.process.values(), flush=True)
time.sleep(60)
"""


@pytest.mark.hosts
@needs_hosts
def test_hosts_end_with_the_process_that_made_them(tmp_path: Path) -> None:
    own = {**os.environ, "TMPDIR": str(tmp_path)}  # the only thing that is left is a folder with files of a few bytes
    maker = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=own)
    assert maker.stdout is not None
    numbers = maker.stdout.readline().split()
    assert len(numbers) == 3 and all(Path(f"/proc/{number}").exists() for number in numbers)
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in numbers), 5)


def test_why_there_are_no_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert no_namespaces() == "hosts of network namespaces need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert no_namespaces() == "hosts of network namespaces need ip, tc, unshare, nsenter, setpriv"


@pytest.mark.parametrize("planted", ["", "another host", "closed", "silent"])
def test_a_server_is_reached_by_its_token_within_the_time_limit(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    monkeypatch.setattr(reachability, "LIMIT", 0.2)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if planted != "silent":
            writer.write(b"another" if planted == "another host" else b"token")
            writer.close()

    async def reached() -> bool:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if planted == "closed":
            server.close()
        return await reachability._reaches("127.0.0.1", port, "token")

    begin = time.monotonic()
    assert asyncio.run(reached()) == (planted == "")
    assert time.monotonic() - begin < 30


def test_each_node_connects_to_all_of_a_few_nodes_and_to_a_few_of_many() -> None:
    for nodes in range(2, 10):
        assert reachability._distances(nodes) == [*range(1, nodes)]
    assert len(reachability._distances(12_500)) < 20 and max(reachability._distances(12_500)) == 8192


@pytest.mark.parallel(2)
def test_ranks_as_nodes_take_the_first_interface_that_all_reach() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    found = {"first": "127.0.0.1", "second": "127.0.0.2"}
    assert reachability._first_reached(world, "here", found) == ("first", "")
    name, refusal = reachability._first_reached(world, f"host{world.rank}", {} if world.rank == 1 else found)
    assert not name and refusal.startswith("host host1 has no network interface")
    own = ({}, "host1 lacks eth9") if world.rank == 1 else (found, "")  # the interface that the user names
    assert reachability._first_reached(world, "here", *own) == ("", "host1 lacks eth9")


@pytest.mark.exhaustive
@pytest.mark.hosts
@needs_hosts
def test_bytes_over_the_link_are_those_of_the_gradients() -> None:
    sizes = ["--network", "resnet8", "--rounds", "2", "--steps", "2", "--ranks", "1", "--wire", "fp32"]
    finished = link(*sizes, "--allreduce", "flat")
    assert finished.returncode == 0, finished.stderr
    rows = {line.split()[0]: line.split() for line in finished.stdout.splitlines() if line.split()}
    assert float(rows["fp32"][-1]) == pytest.approx(GRADIENTS / 1e6, rel=0.1)  # headers are a larger part of so few
    assert float(rows["none"][-1]) < 0.01


def test_without_tools_the_link_is_not_measured() -> None:
    finished = link(env={"PATH": ""})
    assert finished.returncode == 0
    (line,) = finished.stdout.splitlines()
    assert line.startswith("benchmarks/link.py: not run: ")


def link(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A run of benchmarks/link.py."""
    command = [sys.executable, str(ROOT / "benchmarks" / "link.py"), *arguments]
    return subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
