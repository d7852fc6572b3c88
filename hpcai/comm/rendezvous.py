"""Makes the ranks of one group a torch.distributed world of their own; the meeting point is agreed over MPI.

The group's first rank opens a store on a port that the system picks, bound to one interface, and MPI tells the others:
no fixed port, no environment variable, so any number of jobs and groups live side by side.
"""

import fcntl
import gc
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import sleep

import torch
from mpi4py import MPI
from torch import distributed

from hpcai.comm.grid import Group
from hpcai.comm.world import broadcast
from hpcai.errors import LaunchError
from hpcai.formulas.collectives import TrainingBackend
from hpcai.machine import device as devices

TIMEOUT = timedelta(minutes=10)
# seconds, for gloo's threads to drop what Python gave them: they need its lock, which one who ends them does not let go
DRAINED = 0.1
SIOCGIFADDR = 0x8915


def address_of(interface: str) -> str | None:
    """IPv4 address of a network interface, None if it has none."""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return None


def interfaces() -> dict[str, str]:
    """IPv4 address by name of every network interface that has one."""
    found = ((name, address_of(name)) for _, name in socket.if_nameindex())
    return {name: address for name, address in found if address is not None}


def choose_interface(addresses: dict[str, str], inside_node: bool, wanted: str, own_name: str) -> str:
    """Name of a group's interface: loopback inside a node, else the one the host is known by, else any.

    Only among those that `wanted` admits, written as for NCCL: beginnings of names, `=` before them: whole names, `^`:
    all but these. LaunchError where none is left.
    """
    admitted = {name: address for name, address in addresses.items() if _admits(wanted, name)}
    loopback = [name for name, address in admitted.items() if address.startswith("127.")]
    outer = [name for name in admitted if name not in loopback]
    if inside_node and loopback:
        return loopback[0]
    if outer:
        known = _resolve(own_name)  # once: without a name server it takes seconds
        return next((name for name in outer if admitted[name] == known), outer[0])
    raise LaunchError(
        f"host {own_name} has no network interface for a group {'inside it' if inside_node else 'that spans nodes'}: "
        f"of {', '.join(addresses) or 'none'} GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME admits {wanted or 'any'}"
    )


def _admits(wanted: str, name: str) -> bool:
    names = tuple(wanted.lstrip("^=").split(","))
    named = name in names if wanted.lstrip("^").startswith("=") else name.startswith(names)
    return named != wanted.startswith("^")


def _resolve(name: str) -> str | None:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def _open_store(address: str, size: int) -> distributed.TCPStore:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen()
    port = listener.getsockname()[1]
    return distributed.TCPStore(
        address, port, size, is_master=True, timeout=TIMEOUT, wait_for_workers=False, master_listen_fd=listener.detach()
    )


def _meet(comm: MPI.Comm, address: str) -> distributed.TCPStore:
    size = comm.size
    store = _open_store(address, size) if comm.rank == 0 else None
    host, port = broadcast(comm, [store.host, store.port] if store else None)
    return store or distributed.TCPStore(host, port, size, is_master=False, timeout=TIMEOUT)


def one_node(comm: MPI.Comm) -> bool:
    """Whether all ranks of a communicator share a node; the same on every rank."""
    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    alone = local.size == comm.size
    local.Free()
    return alone


def backend(comm: MPI.Comm, device: torch.device) -> TrainingBackend:
    """`nccl` if every rank has a whole GPU, else `gloo`; the same on every rank. Collective.

    NCCL knows no instances of GPUs: it takes two of one GPU for the same, and memory cannot be shared between them.
    """
    suits = devices.whole(device) and distributed.is_nccl_available()
    return "nccl" if comm.allreduce(suits, MPI.LAND) else "gloo"


def _wanted_interface() -> str:
    """What the user asks for; gloo's variable has whole names, NCCL's a notation of its own."""
    gloo = os.environ.get("GLOO_SOCKET_IFNAME", "")
    return f"={gloo}" if gloo else os.environ.get("NCCL_SOCKET_IFNAME", "")


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    yield
    if before is None:
        del os.environ[name]
    else:
        os.environ[name] = before


def keep_apart() -> None:
    """What NCCL has to say under NCCL_DEBUG goes to stderr, unless the user names a file: stdout is the report."""
    os.environ.setdefault("NCCL_DEBUG_FILE", "/dev/stderr")


@contextmanager
def process_group(group: Group, host: str, device: torch.device) -> Iterator[str]:
    """A torch.distributed world over the ranks of one model; yields its backend, `none` where Q = 1 needs none.

    Collective over the group. An exception inside leaves the group as it is: the driver then ends the job, and taking
    a broken group apart could wait for ranks that are gone.
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

    An exception inside leaves it as it is.
    """
    if name == "nccl":
        keep_apart()
    addresses = interfaces()
    interface = choose_interface(addresses, one_node(comm), _wanted_interface(), host)
    with _environment("GLOO_SOCKET_IFNAME", interface):
        distributed.init_process_group(
            name,
            store=_meet(comm, addresses[interface]),
            rank=comm.rank,
            world_size=comm.size,
            timeout=TIMEOUT,
            device_id=device if name == "nccl" else None,
        )
    yield
    gc.collect()  # replicas that were left, while the threads that they wait for are there
    sleep(DRAINED)
    distributed.destroy_process_group()
