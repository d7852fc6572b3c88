"""The caches of this node's processors."""

from contextlib import suppress
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
USUAL = 2**25  # bytes, assumed if the kernel reports no cache


def last_level(cpus: Path = CPUS) -> int:
    """Total bytes of the caches of the highest level, each counted once.

    cpus: the kernel's folder of the processors.
    """
    found: dict[int, dict[str, int]] = {}
    for index in cpus.glob("cpu[0-9]*/cache/index[0-9]*"):
        with suppress(OSError, ValueError, KeyError):
            level, size, sharers = ((index / name).read_text().strip() for name in ("level", "size", "shared_cpu_list"))
            found.setdefault(int(level), {})[sharers] = int(size[:-1]) * UNITS[size[-1]]
    return sum(found[max(found)].values()) if found else USUAL
