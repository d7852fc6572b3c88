"""Bytes per second that a node receives and sends, by counters of the kernel and of NVML.

Between nodes: the network interfaces in `class/net`, and the InfiniBand and RoCE ports in `class/infiniband`, whose
counters are in units of 4 bytes. Every byte counts once: of bonds, bridges and VLANs only the interfaces of hardware
below them, which have a `device`, and of two such the upper one, which counts for both; in a container without such
interfaces those that lie on no other (`lower_*`); never IP over InfiniBand beside the port that carries it. Within the
node: the loopback interface, which receives what it sends, and NVLink. Memory that processes share, as MPI uses it
within a node, has no counter.

A device of RDMA without such counters, as of EFA or Slingshot, makes the bytes between nodes unknown.

A counter that decreases was reset or has wrapped around; it, or one that appears or cannot be read, makes its interval
unknown: None, never 0 and never negative.

Source: Linux, Documentation/ABI/testing/sysfs-class-net-statistics and stable/sysfs-class-infiniband.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from hpcai import clock
from hpcai.machine.nvml import Gpus

SYSTEM = Path("/sys")
LOOPBACK = "lo"
SLINGSHOT = "class/cxi"  # whose traffic by RDMA no interface counts
INFINIBAND = 32  # `type` of an interface that is IP over InfiniBand, ARPHRD_INFINIBAND
WORD = 4  # bytes, the unit of port_rcv_data and port_xmit_data
Counts = Mapping[str, int]  # bytes by interface


class TrafficCounters:
    """Counters of a node; `gpus` are those that its ranks use. root: /sys, or a folder in its place."""

    def __init__(self, gpus: Gpus, root: Path = SYSTEM) -> None:
        self._gpus, self._root = gpus, root
        self.begin()

    def begin(self) -> None:
        """Start the interval of the next reading now."""
        self._time, self._counts = clock.now(), self._counted()

    def rates(self) -> tuple[float | None, ...]:
        """Bytes per second since the last reading: received, sent between nodes; sent within; received, sent by NVLink.

        NVLink: sum of the GPUs. None for what has no counter.
        """
        time, counts = self._time, self._counts
        self.begin()
        seconds = self._time - time
        return tuple(_rate(before, now, seconds) for before, now in zip(counts, self._counts, strict=True))

    def _counted(self) -> list[Counts | None]:
        links = self._gpus.nvlink_bytes()
        return [
            _between(self._root, "rx_bytes", "port_rcv_data"),
            _between(self._root, "tx_bytes", "port_xmit_data"),
            _read({LOOPBACK: _statistic(self._root, LOOPBACK, "tx_bytes")}, 1),
            *(links or (None, None)),
        ]


def _rate(before: Counts | None, now: Counts | None, seconds: float) -> float | None:
    if before is None or now is None or before.keys() != now.keys() or seconds <= 0:
        return None
    moved = [now[name] - before[name] for name in now]
    return None if min(moved) < 0 else sum(moved) / seconds


def _between(root: Path, interface: str, port: str) -> Counts | None:
    """Bytes of one direction by interface and port; None if there is none, or one cannot be read or has no counter."""
    try:
        ports = {str(path): path / "counters" / port for path in (root / "class/infiniband").glob("*/ports/*")}
        names = [*_interfaces(root, bool(ports))]
        if any((root / SLINGSHOT).glob("*")):
            return None
    except OSError:
        return None
    found, words = _read({name: _statistic(root, name, interface) for name in names}, 1), _read(ports, WORD)
    return None if found is None or words is None else {**found, **words} or None


def _statistic(root: Path, name: str, counter: str) -> Path:
    return root / "class/net" / name / "statistics" / counter


def _interfaces(root: Path, has_ports: bool) -> Iterator[str]:
    """Names of the interfaces that count; has_ports: InfiniBand ports are counted as well."""
    paths = sorted(path for path in (root / "class/net").iterdir() if path.is_dir() and path.name != LOOPBACK)
    devices = [path for path in paths if (path / "device").exists()]
    below = {lower.name.removeprefix("lower_") for path in devices for lower in path.glob("lower_*")}
    hardware = [path for path in devices if path.name not in below]
    for path in hardware or [path for path in paths if not any(path.glob("lower_*"))]:
        if not (has_ports and _kind(path) == INFINIBAND):
            yield path.name


def _kind(path: Path) -> int | None:
    try:
        return int((path / "type").read_text())
    except (OSError, ValueError):
        return None


def _read(paths: Mapping[str, Path], unit: int) -> Counts | None:
    """Bytes by name; None if a counter cannot be read."""
    try:
        return {name: unit * int(path.read_text()) for name, path in paths.items()}
    except (OSError, ValueError):
        return None
