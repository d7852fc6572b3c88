"""The processors of this node: sockets, cores and caches, as the kernel reports them."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")


def topology(cpus: Path = CPUS) -> tuple[int, int]:
    """Sockets, and cores of all sockets; 0 of what the kernel does not report. cpus: its folder of the processors."""
    cores: set[tuple[str, str]] = set()
    for folder in cpus.glob("cpu[0-9]*/topology"):
        with suppress(OSError):
            names = ("physical_package_id", "core_id")
            socket, core = ((folder / name).read_text().strip() for name in names)
            cores.add((socket, core))
    return len({socket for socket, _ in cores}), len(cores)


def caches(cpus: Path = CPUS) -> Mapping[str, int]:
    """Number of caches of the node by level, type and size: {"L2 Unified 1024K": 2}."""
    found: dict[tuple[str, str, str, str], str] = {}
    for index in sorted(cpus.glob("cpu[0-9]*/cache/index[0-9]*")):
        with suppress(OSError):
            names = ("level", "type", "size", "shared_cpu_list")
            level, kind, size, sharers = ((index / name).read_text().strip() for name in names)
            found[level, kind, size, sharers] = f"L{level} {kind} {size}"
    return Counter(found[key] for key in sorted(found))


def highest_frequency(cpus: Path = CPUS) -> float:
    """Highest frequency of the first processor in Hz; 0 if the kernel does not report it."""
    try:
        return 1e3 * int((cpus / "cpu0/cpufreq/cpuinfo_max_freq").read_text())
    except (OSError, ValueError):
        return 0.0
