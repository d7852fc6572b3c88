"""The network interface of each node in a group that spans nodes: the first one that the other nodes can connect to.

A host has interfaces that do not lead to the other hosts: bridges of containers, which have the same address
everywhere, networks of its own, links that are down. Over them gloo would wait until its time limit.
"""

import asyncio
import secrets
import socket
from typing import Any

from mpi4py import MPI

from hpcai.comm import communicators
from hpcai.comm.interfaces import candidate_interfaces, interfaces, listed, wanted_interface
from hpcai.errors import LaunchError

LIMIT = 5.0  # seconds to connect: the kernel repeats a lost request after 1 s and 3 s
NEAR = 8  # nodes that each node connects to; of more nodes some further ones, whose number grows as the logarithm
PAUSE = 0.001  # seconds between two looks at whether the other nodes have finished


def group_interface(comm: MPI.Comm, inside_node: bool, host: str) -> tuple[str, str]:
    """Name and address of this rank's interface in a group; the same on the ranks of a node. Collective over `comm`.

    inside_node: whether all ranks are on one node; nothing is tried then. Otherwise each node connects to others, to
    all if they are few. LaunchError on every rank if a node has no interface that those can connect to, or none that
    the user admits.
    """
    found, lack = _candidates(inside_node)
    if inside_node and lack:
        raise LaunchError(lack)
    name = next(iter(found)) if inside_node else _agreed(comm, host, found, lack)
    return name, found[name]


def _candidates(inside_node: bool) -> tuple[dict[str, str], str]:
    """Addresses of the interfaces that this host may use, by name, and if there are none, why."""
    named = socket.gethostname()  # no name server has to know a name that the scheduler gave to the node
    try:
        return candidate_interfaces(interfaces(), inside_node, wanted_interface(), named), ""
    except LaunchError as error:
        return {}, str(error)


def _agreed(comm: MPI.Comm, host: str, found: dict[str, str], lack: str) -> str:
    local = communicators.of_node(comm)
    nodes = communicators.split(comm, MPI.UNDEFINED if local.rank else 0, comm.rank)
    name, refusal = local.bcast(None if local.rank else _first_reached(nodes, host, found, lack))
    local.Free()
    if nodes != MPI.COMM_NULL:
        nodes.Free()
    if refusal:
        raise LaunchError(refusal)
    return str(name)


def _first_reached(nodes: MPI.Comm, host: str, found: dict[str, str], lack: str = "") -> tuple[str, str]:
    """The interface, and if a node has none, why. Collective over one rank of each node. lack: why `found` is empty."""
    left, strangers = list(found), [""]
    while True:
        mine = (nodes.size, "") if left else (nodes.rank, lack or _refusal(host, found, strangers[0]))
        _, refusal = nodes.allreduce(mine, MPI.MIN)  # of the first node that has one
        if refusal:
            return "", refusal
        own = asyncio.run(_unreached(nodes, host, found[left[0]]))
        if not nodes.allreduce(bool(own), MPI.LOR):
            return left[0], ""
        if own:
            left, strangers = left[1:], own


def _refusal(host: str, found: dict[str, str], stranger: str) -> str:
    return (
        f"host {host} has no network interface that all other hosts of a group can connect to: tried {listed(found)}; "
        f"{stranger} could not connect to the last one in {LIMIT:g} s; allowed: names of interfaces of a common "
        f"network in GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, or none; {host} has {listed(interfaces())}"
    )


def _distances(nodes: int) -> list[int]:
    """How far the nodes are, by rank, that each node connects to: all of a few, else some near and some far ones."""
    far = (2**power for power in range((nodes - 1).bit_length()))
    return sorted({*range(1, min(nodes, NEAR + 1)), *far})


async def _unreached(nodes: MPI.Comm, host: str, address: str) -> list[str]:
    """The ranks that cannot connect to this node's address, with their hosts, of those that try. Collective."""
    token = secrets.token_hex(8)  # tells this node from another one with the same address

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(token.encode())
        writer.close()

    server = await asyncio.start_server(greet, address, 0, backlog=nodes.size)
    offer, distances = (address, server.sockets[0].getsockname()[1], token), _distances(nodes.size)
    offers = [_shifted(nodes, offer, -distance) for distance in distances]
    reached = await asyncio.gather(*(_reaches(*offer) for offer in offers))
    others = nodes.Ibarrier()
    while not others.Test():
        await asyncio.sleep(PAUSE)
    server.close()
    own = f"rank {MPI.COMM_WORLD.rank} on {host}"
    answers = [_shifted(nodes, (own, found), away) for found, away in zip(reached, distances, strict=True)]
    return [name for name, found in answers if not found]


def _shifted(nodes: MPI.Comm, message: Any, distance: int) -> Any:
    """Send a message to the node at a distance, and receive that of the node at the opposite one. Collective."""
    return nodes.sendrecv(
        message, dest=(nodes.rank + distance) % nodes.size, source=(nodes.rank - distance) % nodes.size
    )


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
