"""Runs on two, three and four hosts by MPICH and Open MPI: placement, nodes, interfaces, staging, telemetry, search."""

import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from job_folder import prepared, write_images
from jobs_on_hosts import LAUNCHERS, NO_NAMES, PLANTED, Json, ended, launcher, needs_hosts, verified_result

from benchmarks.hosts import HEAD, Hosts

pytestmark = [pytest.mark.hosts, pytest.mark.exhaustive, needs_hosts]
ACROSS = """\
Models and a search on several hosts
No header
0.25              TELEMETRY
[ensemble]
fashion:images    DATASET
2                 GROUPS
2                 DEGREE
row column        MAPPING
8                 BATCH
8                 RESOLUTION
1                 EPOCHS
keep              STAGE
[nas]
fashion:images    DATASET
2                 GROUPS
2                 DEGREE
column            MAPPING
8                 BATCH
8                 RESOLUTION
2                 EPOCHS
4                 TRIALS
"""
LOCAL = {"HPCAI_LOCAL": "/dev/shm"}  # of which each host has its own


@pytest.mark.parametrize(
    ("mpi", "ranks"), [("mpich", (2, 2)), ("openmpi", (2, 2)), ("mpich", (1, 2, 1)), ("openmpi", (1, 1, 1, 1))]
)
def test_a_run_uses_each_host_as_a_node(tmp_path: Path, mpi: str, ranks: tuple[int, ...]) -> None:
    (prepared(tmp_path) / "input.dat").write_text(ACROSS)
    with Hosts(len(ranks), None, launcher=launcher(mpi)) as hosts:
        hosts.table.write_text(f"127.0.1.1 {' '.join(hosts.names)}\n{hosts.address[HEAD]} {HEAD}\n")  # as on Debian
        done = ended(hosts, tmp_path, ranks=ranks, env=LOCAL)
        assert done.returncode == 0, done.stdout + done.stderr
        assert all(copied(hosts, name) for name in hosts.names)
        found, names = verified_result(tmp_path), hosts.names
        placed(found, [name for name, count in zip(names, ranks, strict=True) for _ in range(count)], hosts.address)
    assert "c10d" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert f"Machine : {len(ranks)} nodes" in done.stdout
    *models, search = found["tests"]
    nbytes = sum(file.stat().st_size for file in (tmp_path / "images").iterdir())
    staged = [test["raw"]["staging"] for test in models]
    assert [(each["bytes"], each["reused_bytes"]) for each in staged] == [
        (len(names) * nbytes, 0),
        (0, len(names) * nbytes),
    ]
    for test in found["tests"]:
        sampled(test, names)
    if ranks == (2, 2):  # groups by row are within hosts
        within, across = (test["telemetry"]["average"] for test in models)
        assert within["sent_within"] > across["sent_within"] and across["sent_between"] > within["sent_between"]
    assert {trial["worker"] for trial in search["trials"]} == {0, 1}


def placed(found: Json, names: list[str], address: dict[str, str]) -> None:
    """Ranks are on these hosts, in groups by MAPPING, and the rank map has the interfaces."""
    assert [rank["host"] for rank in found["ranks"]] == names
    assert [(rank["interface"], rank["address"]) for rank in found["ranks"]] == [
        ("eth0", address[name]) for name in names
    ]
    assert found["environment"]["grids"] == ["2x2 R", "2x2 C"] and found["environment"]["nodes"] == len({*names})
    assert [rank["groups"] for rank in found["ranks"]] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [test["tv"][:3] for test in found["tests"]] == ["WR1", "WC1", "WC3"]


def sampled(test: Json, names: list[str]) -> None:
    """All hosts have samples of telemetry, and of their own interfaces."""
    seen = test["telemetry"]
    assert seen["nodes"] == len(names) and [node["host"] for node in seen["further"]] == names[1:]
    assert seen["series"] and all(node["series"] for node in seen["further"]) and seen["over_nodes"]
    assert seen["average"]["sent_between"] > 0


def copied(hosts: Hosts, name: str) -> list[Path]:
    """Files of copies on a host."""
    return [*Path(f"/proc/{hosts.process[name]}/root/dev/shm").glob("hpcai-*/*/files/*")]


def test_each_host_reads_its_own_copy(tmp_path: Path) -> None:
    """The copy of the second host is replaced by other images, as sound by its checksum; only its rank finds them."""
    prepared(tmp_path)
    (tmp_path / "others").mkdir()
    write_images(tmp_path / "others", 1)
    with Hosts(2, None) as hosts:
        assert ended(hosts, tmp_path, "--set", "STAGE=keep", env=LOCAL).returncode == 0
        for copy in copied(hosts, "node2"):
            other = (tmp_path / "others/images" / copy.name).read_bytes()
            copy.write_bytes(other)
            (copy.parent.parent / "sums" / copy.name).write_text(f"{zlib.crc32(other):08x}")
        done = ended(hosts, tmp_path, "--set", "STAGE=keep", env=LOCAL)
    assert done.returncode != 0
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("hpcai: rank 1 on node2"))
    assert "the copy /dev/shm/hpcai-" in line and "holds data of SHA-256" in line


WHERE = """
import socket
from mpi4py import MPI
found = MPI.COMM_WORLD.gather(socket.gethostname())
if found:
    print(*found)
"""


def test_the_mpirun_of_open_mpi_that_make_writes_fills_one_host_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text(WHERE)
    own = launcher("openmpi")

    def without_a_mapping(remote: str, hosts: str) -> list[str]:
        options = own.options(remote, hosts)
        place = options.index("--map-by")
        return [*options[:place], *options[place + 2 :]]

    with Hosts(2, None, launcher=replace(own, options=without_a_mapping)) as hosts:
        done = ended(hosts, tmp_path, program=tmp_path / "where.py", ranks=2, timeout=60)
    assert done.stdout.split() == ["node1", "node1", "node2", "node2"], done.stdout + done.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_an_interface_that_leads_nowhere_is_left_out(tmp_path: Path, mpi: str) -> None:
    """By the program; Open MPI is told. The name of a host has the address of its loopback interface."""
    own = {"OMPI_MCA_btl_tcp_if_include": "eth0"}
    with Hosts(2, None, PLANTED, launcher(mpi)) as hosts:
        hosts.table.write_text(f"{NO_NAMES}{hosts.address[HEAD]} {HEAD}\n")
        done = ended(hosts, prepared(tmp_path), env=own)
    assert done.returncode == 0, done.stderr
    assert [rank["interface"] for rank in verified_result(tmp_path)["ranks"]] == ["eth0", "eth0"]
