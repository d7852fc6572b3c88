"""What a reader must know of the machine and the software; of constant size, whatever the number of ranks."""

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from hpcai.machine import memory

PACKAGES = ("torch", "numpy", "mpi4py", "h5py", "numba")


def processor() -> str:
    """Model name of the processor as the kernel gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def memory_bytes() -> int:
    """Memory of the node in bytes, or the limit of a control group above this process where that is lower."""
    try:
        return memory.installed()
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def versions() -> dict[str, str]:
    """Installed version by package."""
    return {package: metadata.version(package) for package in PACKAGES}


def environment(mpi_library: str, device_name: str, libraries: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """The machine and software of the calling rank, for the report and the result file.

    `libraries`: versions by name of what computes on its GPU.
    """
    return {
        "processor": processor(),
        "cpus": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "device": device_name,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "mpi": mpi_library,
        "packages": {**versions(), **(libraries or {})},
    }
