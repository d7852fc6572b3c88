"""CPU affinity and threads of a rank, set before any library with a thread pool is imported.

Ranks of one node that may run on the same processors divide them into equal slices of whole cores, one thread a core.
A binding by the launcher is kept. Nothing here needs MPI or torch: the ranks of a node exchange their processor sets in
hpcai.comm.world.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Placement:
    """Processors of a rank, its number of threads, and the number of ranks that share a processor with it."""

    cpus: tuple[int, ...]
    threads: int
    sharers: int  # other ranks of the node that may run on one of these processors


def own_cpus() -> tuple[int, ...]:
    """Processors the calling process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def machine(host: str) -> str:
    """Identity of the running system: its host name, and the number that the kernel drew when it started."""
    try:
        return f"{host} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    except OSError:
        return host


@cache
def core_of(cpu: int) -> int:
    """Lowest processor number among the hardware threads of the core of `cpu`."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return int(path.read_text().replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return cpu


def cores(cpus: Sequence[int]) -> list[tuple[int, ...]]:
    """The processors grouped by core, in ascending order."""
    by_core: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        by_core.setdefault(core_of(cpu), []).append(cpu)
    return [tuple(members) for members in by_core.values()]


def cgroup_cpus(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> int | None:
    """Processors that the control group's CPU quota allows, rounded up; None without a quota."""
    try:
        quota, period = path.read_text().split()[:2]
        return None if quota == "max" else max(1, ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return None


def divide(units: Sequence[tuple[int, ...]], parts: int, index: int) -> tuple[int, ...]:
    """Processors of slice `index` of `parts`; with fewer cores than parts, slices take the cores round-robin.

    The first ranks, which work in every test, then share as little as possible.
    """
    count = len(units)
    if parts > count:
        return units[index % count]
    begin, end = index * count // parts, (index + 1) * count // parts
    return tuple(cpu for unit in units[begin:end] for cpu in unit)


def place(node_sets: Sequence[tuple[int, ...]], index: int, quota: int | None = None) -> Placement:
    """The placement of the node's rank `index`, from the processor sets that the launcher gave to all its ranks."""
    slices = [_slice(node_sets, other) for other in range(len(node_sets))]
    own = set(slices[index])
    sharers = sum(1 for other, cpus in enumerate(slices) if other != index and own & set(cpus))
    threads = len(cores(slices[index]))
    if quota is not None:
        threads = min(threads, max(1, quota // len(node_sets)))
    return Placement(slices[index], threads, sharers)


def _slice(node_sets: Sequence[tuple[int, ...]], index: int) -> tuple[int, ...]:
    same = [other for other, cpus in enumerate(node_sets) if cpus == node_sets[index]]
    return divide(cores(node_sets[index]), len(same), same.index(index))


def apply(placement: Placement) -> None:
    """Bind the process and set the environment variables from which thread pools read their size at import."""
    os.sched_setaffinity(0, placement.cpus)
    for name in THREAD_VARIABLES:
        os.environ[name] = str(placement.threads)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as `0-3,8`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
