"""Network interfaces of this host, and which of them a group of ranks communicates over."""

import fcntl
import os
import socket
import struct

from hpcai.errors import LaunchError

SIOCGIFADDR = 0x8915  # ioctl that asks for the IPv4 address of an interface


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


def listed(addresses: dict[str, str]) -> str:
    """Interfaces with their addresses, in words."""
    return ", ".join(f"{name} ({address})" for name, address in addresses.items()) or "none"


def candidate_interfaces(addresses: dict[str, str], inside_node: bool, wanted: str, own_name: str) -> dict[str, str]:
    """Those of the interfaces that a group may communicate over, the best first.

    Loopback inside a node, then the one of the host name's address, then the others. wanted restricts the choice, in
    NCCL's notation: prefixes of names; `=` before them: whole names; `^`: all but these. LaunchError if none is left.
    """
    admitted = {name: address for name, address in addresses.items() if _admits(wanted, name)}
    loopback = [name for name, address in admitted.items() if address.startswith("127.")]
    outer = [name for name in admitted if name not in loopback]
    names = loopback if inside_node and loopback else _own_first(outer, admitted, own_name)
    if not names:
        raise LaunchError(
            f"host {own_name} has no network interface for a group "
            f"{'inside it' if inside_node else 'that spans nodes'}: of {listed(addresses)} "
            f"GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME admits {wanted or 'any'}"
        )
    return {name: admitted[name] for name in names}


def choose_interface(addresses: dict[str, str], inside_node: bool, wanted: str, own_name: str) -> str:
    """Name of the first of `candidate_interfaces`, with the same arguments."""
    return next(iter(candidate_interfaces(addresses, inside_node, wanted, own_name)))


def _own_first(names: list[str], addresses: dict[str, str], own_name: str) -> list[str]:
    known = _resolve(own_name) if names else None  # once: without a name server it takes seconds
    return sorted(names, key=lambda name: addresses[name] != known)


def _admits(wanted: str, name: str) -> bool:
    names = tuple(wanted.lstrip("^=").split(","))
    named = name in names if wanted.lstrip("^").startswith("=") else name.startswith(names)
    return named != wanted.startswith("^")


def _resolve(name: str) -> str | None:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def wanted_interface() -> str:
    """The interfaces that the user admits, in NCCL's notation; gloo's variable holds whole names."""
    gloo = os.environ.get("GLOO_SOCKET_IFNAME", "")
    return f"={gloo}" if gloo else os.environ.get("NCCL_SOCKET_IFNAME", "")
