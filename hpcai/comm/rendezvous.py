"""Rendezvous: a torch.distributed world for the ranks of one group, with the address agreed over MPI.

The group's first rank opens a store on a port that the system picks, bound to one interface, and broadcasts the address
by MPI. There is no fixed port and no environment variable, so any number of jobs and groups can run at the same time.
Who can reach that interface can connect: neither the store nor gloo authenticates. Within a node it is the loopback.
"""

import gc
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import sleep

import torch
from mpi4py import MPI
from torch import distributed

from hpcai.comm import communicators
from hpcai.comm.grid import Group
from hpcai.comm.reachability import group_interface
from hpcai.comm.world import broadcast, own_node
from hpcai.errors import LaunchError
from hpcai.formulas.collectives import TrainingBackend
from hpcai.machine import device as devices

TIMEOUT = timedelta(minutes=10)
# seconds for gloo's threads to release Python objects: they need the GIL, which the thread that ends them holds
DRAINED = 0.1
SPOKEN = 3.0  # seconds in which the first rank says what all have, and the launcher ends the others


def _open_store(address: str, size: int) -> distributed.TCPStore:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen()
    port = listener.getsockname()[1]
    return distributed.TCPStore(
        address, port, size, is_master=True, timeout=TIMEOUT, wait_for_workers=False, master_listen_fd=listener.detach()
    )


def _meet(comm: MPI.Comm, address: str) -> distributed.Store:
    """The store of a group. Keys begin with a secret, so that who connects by mistake cannot change what ranks read."""
    size = comm.size
    store = _open_store(address, size) if comm.rank == 0 else None
    host, port, secret = broadcast(comm, [store.host, store.port, secrets.token_hex(16)] if store else None)
    joined = store or distributed.TCPStore(host, port, size, is_master=False, timeout=TIMEOUT)
    return distributed.PrefixStore(secret, joined)


def one_node(comm: MPI.Comm) -> bool:
    """Whether all ranks of a communicator share a node; the same on every rank."""
    local = communicators.of_node(comm)
    alone = local.size == comm.size
    local.Free()
    return alone


def _interface(comm: MPI.Comm, inside_node: bool, host: str) -> tuple[str, str]:
    """Name and address of this rank's interface in a group; LaunchError on every rank, on the first one soonest."""
    try:
        return group_interface(comm, inside_node, host)
    except LaunchError:
        sleep(SPOKEN if comm.rank else 0.0)
        raise


def subgroup(comm: MPI.Comm, ranks: Sequence[int]) -> distributed.ProcessGroup:
    """A process group of some ranks of torch's default group; `comm` has these ranks. Collective over them."""
    inside_node = one_node(comm)
    interface, _ = _interface(comm, inside_node, own_node())
    with _over(interface, inside_node):
        made: distributed.ProcessGroup = distributed.new_group(
            list(ranks), timeout=TIMEOUT, use_local_synchronization=True
        )
    return made


def backend(comm: MPI.Comm, device: torch.device) -> TrainingBackend:
    """`nccl` if every rank has a whole GPU, else `gloo`; the same on every rank. Collective.

    NCCL does not support MIG instances: it takes two instances of one GPU for the same device.
    """
    suits = devices.whole(device) and distributed.is_nccl_available()
    return "nccl" if comm.allreduce(suits, MPI.LAND) else "gloo"


@contextmanager
def _over(interface: str, inside_node: bool) -> Iterator[None]:
    """While groups are made: gloo uses the interface; NCCL as well within a node, between nodes it may use several."""
    nccl = {"NCCL_SOCKET_IFNAME": f"={interface}"} if inside_node else {}
    variables = {"GLOO_SOCKET_IFNAME": interface, **nccl}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    yield
    for name, value in before.items():
        os.environ.pop(name)
        os.environ.update({name: value} if value is not None else {})


def log_nccl_to_stderr() -> None:
    """Send NCCL's debug output to stderr, unless the user names a file: stdout is for the report."""
    os.environ.setdefault("NCCL_DEBUG_FILE", "/dev/stderr")


@contextmanager
def process_group(group: Group, host: str, device: torch.device) -> Iterator[str]:
    """A torch.distributed world over the ranks of one model; yields its backend, `none` where Q = 1 needs none.

    Collective over the group. After an exception inside, the group is not destroyed: the job then ends, and
    destroying a broken group could wait for ranks that are gone.
    """
    if group.degree == 1:
        yield "none"
        return
    name = backend(group.model, device)
    with torch_world(group.model, name, host, device):
        yield name


@contextmanager
def torch_world(comm: MPI.Comm, name: str, host: str, device: torch.device) -> Iterator[None]:
    """A torch.distributed world with backend `name` over two ranks or more of an MPI communicator. Collective.

    After an exception inside, it is not destroyed.
    """
    if name == "nccl":
        log_nccl_to_stderr()
    inside_node = one_node(comm)
    interface, address = _interface(comm, inside_node, host)
    hook = sys.excepthook
    with _over(interface, inside_node):
        distributed.init_process_group(
            name,
            store=_meet(comm, address),
            rank=comm.rank,
            world_size=comm.size,
            timeout=TIMEOUT,
            device_id=device if name == "nccl" else None,
        )
    yield
    gc.collect()  # unreferenced replicas, while the threads that they wait for still exist
    sleep(DRAINED)
    distributed.destroy_process_group()
    sys.excepthook = hook  # torch puts one more around it for every world
