"""Groups as torch.distributed worlds: many at once, repeatedly, without ports, variables or files left behind."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from launch import mpirun, start_job, wait_until
from torch import distributed

from hpcai.errors import LaunchError

if TYPE_CHECKING:
    from hpcai.comm.grid import Group

CPU = torch.device("cpu")
NODE = {"lo": "127.0.0.1", "docker0": "172.17.0.1", "eth0": "10.0.0.5", "eth10": "10.1.0.5", "ib0": "10.9.0.5"}


@pytest.mark.parametrize(
    ("inside", "wanted", "chosen"),
    [
        (True, "", "lo"),
        (True, "=eth0", "eth0"),
        (True, "^lo,docker", "eth10"),
        (True, "^docker", "lo"),
        (False, "", "eth10"),
        (False, "=eth0", "eth0"),
        (False, "eth", "eth10"),
        (False, "ib", "ib0"),
        (False, "=ib0,docker0", "docker0"),
        (False, "^eth,docker", "ib0"),
        (False, "^=eth10", "docker0"),
        (False, "^docker0,lo", "eth10"),
    ],
)
def test_the_interface_of_a_group(monkeypatch: pytest.MonkeyPatch, inside: bool, wanted: str, chosen: str) -> None:
    from hpcai.comm.interfaces import choose_interface

    monkeypatch.setattr(socket, "gethostbyname", {"here": "10.1.0.5"}.__getitem__)
    assert choose_interface(NODE, inside, wanted, "here") == chosen


def test_without_an_interface_of_the_host_name_the_first_outer_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm.interfaces import choose_interface

    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    assert choose_interface({"lo": "127.0.0.1", "eth0": "10.0.0.5"}, False, "", "here") == "eth0"

    def fails(name: str) -> str:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", fails)
    assert choose_interface({"lo": "127.0.0.1", "eth0": "10.0.0.5"}, False, "", "here") == "eth0"


@pytest.mark.parametrize(
    ("addresses", "inside", "wanted"),
    [
        (NODE, False, "=eth"),
        (NODE, True, "wlan"),
        (NODE, False, "=lo"),
        ({"lo": "127.0.0.1"}, False, ""),
        ({}, True, ""),
    ],
)
def test_a_missing_interface_is_refused_with_the_existing_ones(
    addresses: dict[str, str], inside: bool, wanted: str
) -> None:
    from hpcai.comm.interfaces import choose_interface

    with pytest.raises(LaunchError, match="GLOO_SOCKET_IFNAME") as refused:
        choose_interface(addresses, inside, wanted, "localhost")
    assert all(name in str(refused.value) for name in addresses)
    assert wanted in str(refused.value)


def test_interfaces_of_this_machine_have_addresses_that_can_be_bound() -> None:
    from hpcai.comm.interfaces import address_of, interfaces

    assert "127.0.0.1" in interfaces().values()
    for address in interfaces().values():
        with socket.socket() as probe:
            probe.bind((address, 0))
    assert address_of("nothing0") is None


def listening() -> set[str]:
    """Address:port, IPv4 or IPv6 in hexadecimal, of every socket of this process that listens."""
    sockets = {os.readlink(entry) for entry in _descriptors()}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets}


def _descriptors() -> list[Path]:
    return [entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]


@contextmanager
def own_world(group: "Group", address: str) -> Iterator[str]:
    """A process group that listens at one address only and leaves no port, variable or world behind."""
    from hpcai.comm.rendezvous import process_group

    environment, ports, hook = dict(os.environ), listening(), sys.excepthook
    with process_group(group, socket.gethostname(), CPU) as backend:
        opened = {port.split(":")[0] for port in listening() - ports}
        assert opened <= {socket.inet_aton(address)[::-1].hex().upper()}  # the kernel's format on little-endian
        assert opened or group.degree == 1
        yield backend
    assert dict(os.environ) == environment
    assert sys.excepthook is hook  # a chain of one for each world of a sweep would exceed the recursion limit
    assert listening() <= ports
    assert not distributed.is_initialized()


def grids(ranks: int) -> list[tuple[int, int]]:
    """A sweep that changes the shape at every step, with idle ranks in between, and returns to the first shape."""
    shapes = [(1, ranks), (ranks, 1), (2, ranks // 2), (ranks // 2, 2), (1, max(1, ranks - 1)), (1, ranks)]
    return [(p, q) for p, q in shapes if p and q]


@pytest.mark.exhaustive
@pytest.mark.parallel(4)
def test_every_group_of_a_sweep_is_a_world_of_its_own() -> None:
    from mpi4py import MPI

    from hpcai.comm.grid import split

    world, open_files = MPI.COMM_WORLD, []
    for number, (groups, degree) in enumerate(grids(world.size) * 2):
        mapping = ("row", "column")[number % 2]
        group = split(world, groups, degree, mapping)
        if group is not None:
            with own_world(group, "127.0.0.1") as backend:
                assert backend == ("gloo" if degree > 1 else "none")
                assert distributed.is_initialized() == (degree > 1)
                if degree > 1:
                    assert (distributed.get_rank(), distributed.get_world_size()) == (group.coordinates.member, degree)
                    vector = torch.full((1000,), float(world.rank))
                    distributed.all_reduce(vector)
                    assert vector.unique().tolist() == [group.model.allreduce(world.rank)]
            group.free()
        world.Barrier()
        open_files.append(len(_descriptors()))
    assert open_files[-1] <= open_files[len(open_files) // 2]  # the second sweep leaves nothing open
    group = split(world, 1, world.size, "row")
    assert group is not None
    _check_users_interface(group)


def _check_users_interface(group: "Group") -> None:
    from hpcai.comm.interfaces import interfaces

    own = {name: address for name, address in interfaces().items() if not address.startswith("127.")}
    name, address = next(iter(own.items()), ("lo", "127.0.0.1"))
    for variable, value in (("GLOO_SOCKET_IFNAME", name), ("NCCL_SOCKET_IFNAME", f"={name}")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, value)
            with own_world(group, address):
                if group.degree > 1:
                    distributed.barrier()
            patch.setenv(variable, "=nothing0")
            if group.degree > 1:
                with pytest.raises(LaunchError, match="nothing0"), own_world(group, address):
                    pass


def test_messages_of_nccl_are_kept_out_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from hpcai.comm.rendezvous import log_nccl_to_stderr

    monkeypatch.delenv("NCCL_DEBUG_FILE", raising=False)
    log_nccl_to_stderr()
    assert os.environ["NCCL_DEBUG_FILE"] == "/dev/stderr"
    monkeypatch.setenv("NCCL_DEBUG_FILE", "nccl.%h.%p")
    log_nccl_to_stderr()
    assert os.environ["NCCL_DEBUG_FILE"] == "nccl.%h.%p"


TWO_JOBS = """
import sys, time
from pathlib import Path
import torch
from mpi4py import MPI
from torch import distributed
from hpcai.comm.grid import split
from hpcai.comm.rendezvous import process_group
folder, own, other = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
with process_group(group, "here", torch.device("cpu")) as backend:
    (folder / own).touch()
    while not (folder / other).exists():
        time.sleep(0.01)
    value = torch.tensor([float(own)])
    distributed.all_reduce(value)
    assert value.item() == 2 * float(own) and backend == "gloo"
"""


@pytest.mark.slow
@pytest.mark.skipif(mpirun() is None, reason="NO mpirun: MPI TEST NOT RUN")
def test_two_jobs_on_one_machine_are_independent(tmp_path: Path) -> None:
    fixed = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    jobs = [start_job(["-c", TWO_JOBS, tmp_path, own, other], 2, env=fixed) for own, other in (("3", "5"), ("5", "3"))]
    with jobs[0], jobs[1]:
        wait_until(lambda: all(job.process.poll() is not None for job in jobs), 60)
        for job in jobs:
            finished = job.wait(1)
            assert finished.returncode == 0, finished.stderr
