"""The network interface of each node in a group that spans nodes: the first one that every other node can connect to.

A host has interfaces that do not lead to the other hosts: bridges of containers, which have the same address
everywhere, networks of its own, links that are down. Over them gloo would wait until its time limit.
"""

import asyncio
import secrets

from mpi4py import MPI

from hpcai.comm.interfaces import candidate_interfaces, interfaces, wanted_interface
from hpcai.comm.world import gather_all
from hpcai.errors import LaunchError

LIMIT = 5.0  # seconds to connect: the kernel repeats a lost request after 1 s and 3 s
PAUSE = 0.001  # seconds between two looks at whether the other nodes have finished


def group_interface(comm: MPI.Comm, inside_node: bool, host: str) -> tuple[str, str]:
    """Name and address of this rank's interface in a group; the same on the ranks of a node. Collective over `comm`.

    inside_node: whether all ranks are on one node; nothing is tried then. Otherwise each node connects to each other
    one, as gloo will. LaunchError on every rank if a node has no interface that all others can connect to.
    """
    found = candidate_interfaces(interfaces(), inside_node, wanted_interface(), host)
    name = next(iter(found)) if inside_node else _agreed(comm, host, found)
    return name, found[name]


def _agreed(comm: MPI.Comm, host: str, found: dict[str, str]) -> str:
    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    nodes = comm.Split(MPI.UNDEFINED if local.rank else 0, comm.rank)
    name, refusal = local.bcast(None if local.rank else _first_reached(nodes, host, found))
    local.Free()
    if nodes != MPI.COMM_NULL:
        nodes.Free()
    if refusal:
        raise LaunchError(refusal)
    return str(name)


def _first_reached(nodes: MPI.Comm, host: str, found: dict[str, str]) -> tuple[str, str]:
    """The interface, and if a node has none, why. Collective over one rank of each node."""
    left, strangers = list(found), [""]
    while True:
        refusals = gather_all(nodes, "" if left else _refusal(host, found, strangers[0]))
        if any(refusals):
            return "", next(filter(None, refusals))
        unreached = asyncio.run(_unreached(nodes, host, found[left[0]]))
        if not any(unreached):
            return left[0], ""
        if unreached[nodes.rank]:
            left, strangers = left[1:], unreached[nodes.rank]


def _refusal(host: str, found: dict[str, str], stranger: str) -> str:
    tried = ", ".join(f"{name} ({address})" for name, address in found.items())
    return (
        f"host {host} has no network interface that all other hosts of a group can connect to: tried {tried}; "
        f"{stranger} could not connect to the last one in {LIMIT:g} s; allowed: names of interfaces of a common "
        "network in GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, or none"
    )


async def _unreached(nodes: MPI.Comm, host: str, address: str) -> list[list[str]]:
    """For each node the hosts that cannot connect to its address; the same everywhere. Collective."""
    token = secrets.token_hex(8)  # tells this node from another one with the same address

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(token.encode())
        writer.close()

    server = await asyncio.start_server(greet, address, 0, backlog=nodes.size)
    offers = gather_all(nodes, [address, server.sockets[0].getsockname()[1], token])
    reached = await asyncio.gather(*(_reaches(*offer) for offer in offers))
    others = nodes.Ibarrier()
    while not others.Test():
        await asyncio.sleep(PAUSE)
    server.close()
    missed = gather_all(nodes, [host, [number for number, is_reached in enumerate(reached) if not is_reached]])
    return [[name for name, numbers in missed if number in numbers] for number in range(nodes.size)]


async def _reaches(address: str, port: int, token: str) -> bool:
    """Whether the server with this token answers within the time limit."""
    try:
        async with asyncio.timeout(LIMIT):
            reader, writer = await asyncio.open_connection(address, port)
            answer = await reader.read()
            writer.close()
    except OSError:  # TimeoutError is one
        return False
    return answer == token.encode()
