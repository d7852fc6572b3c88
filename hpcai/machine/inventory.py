"""Inventory of the machine and the software, of constant size whatever the number of ranks."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

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
    """Memory of the node in bytes, or the limit of a control group of this process if that is lower."""
    try:
        return memory.installed()
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def versions() -> dict[str, str]:
    """Installed version by package."""
    return {package: metadata.version(package) for package in PACKAGES}


@dataclass(frozen=True)
class Inventory:
    """Machine and software of one rank. packages: versions by name."""

    processor: str
    cpus: int
    memory_bytes: int
    device: str
    system: str
    python: str
    mpi: str
    packages: dict[str, str]


def inventory(mpi_library: str, device_name: str, libraries: Mapping[str, str] | None = None) -> Inventory:
    """Machine and software of the calling rank.

    libraries: versions by name of the libraries that compute on its GPU.
    """
    return Inventory(
        processor=processor(),
        cpus=os.cpu_count() or len(os.sched_getaffinity(0)),
        memory_bytes=memory_bytes(),
        device=device_name,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        mpi=mpi_library,
        packages={**versions(), **(libraries or {})},
    )
