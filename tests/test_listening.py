"""Sockets that a job listens on: of loopback within a node. Those of MPI and its launcher are theirs."""

import os
import socket
from pathlib import Path

import pytest
import torch

CPU = torch.device("cpu")
LISTENS = "0A"  # state of a row of /proc/net/tcp


def listening(process: int | str = "self") -> set[str]:
    """Addresses, without ports, that a process listens on, in the notation of /proc/net/tcp."""
    links = (f"/proc/{process}/fd/{name}" for name in os.listdir(f"/proc/{process}/fd"))
    sockets = {os.readlink(link).removeprefix("socket:[").rstrip("]") for link in links if os.path.islink(link)}
    tables = [line.split() for kind in ("tcp", "tcp6") for line in Path("/proc/net", kind).read_text().splitlines()[1:]]
    return {row[1] for row in tables if row[3] == LISTENS and row[9] in sockets}


def outside(addresses: set[str]) -> set[str]:
    """Those of some addresses that other hosts can reach."""
    return {address for address in addresses if not address.startswith("0100007F:")}


def test_a_socket_for_all_interfaces_is_found() -> None:
    before = listening()
    with socket.create_server(("127.0.0.1", 0)):
        assert len(listening() - before) == 1 and not outside(listening() - before)
    for host, family in (("", socket.AF_INET), ("::", socket.AF_INET6)):
        with socket.create_server((host, 0), family=family):
            assert len(outside(listening() - before)) == 1


@pytest.mark.parallel(2)
def test_groups_and_the_watcher_of_a_node_listen_on_loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from mpi4py import MPI
    from torch import distributed

    from hpcai.comm import rank_watch
    from hpcai.comm.rendezvous import subgroup, torch_world

    comm, before = MPI.COMM_WORLD, listening()
    with torch_world(comm, "gloo", socket.gethostname(), CPU):
        subgroup(comm, range(comm.size))
        total = torch.ones(1)
        distributed.all_reduce(total)
        assert int(total) == comm.size
        assert not outside(listening() - before)
        assert comm.allreduce(len(listening() - before)) >= 1
    monkeypatch.setattr(rank_watch, "_processes", [])
    rank_watch.begin(comm, comm, socket.gethostname())
    comm.Barrier()
    found = {address for process in rank_watch._processes for address in listening(process.pid)}
    assert not outside(found) and comm.allreduce(len(found)) == 1
    comm.Barrier()
    rank_watch.leave()
    while rank_watch._connections:  # as the end of the process does
        rank_watch._connections.pop().close()
