"""Processors and threads of a rank, settled before any library with a thread pool is imported.

Ranks of one node that may run on the same processors share them out in equal slices of whole cores; one thread a core.
A launcher that has bound its ranks already is left alone. Nothing here needs MPI or torch: the ranks of the node
exchange their processor sets in hpcai.comm.world.
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
    """Processors this rank may run on, its number of threads, and with how many others it has to share."""

    cpus: tuple[int, ...]
    threads: int
    sharers: int  # other ranks of the node that may run on one of these processors


def own_cpus() -> tuple[int, ...]:
    """Processors the calling process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


@cache
def core_of(cpu: int) -> int:
    """Lowest processor number among the hardware threads of the core that `cpu` belongs to."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return int(path.read_text().replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return cpu


def cores(cpus: Sequence[int]) -> list[tuple[int, ...]]:
    """The processors gathered into cores, in ascending order."""
    by_core: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        by_core.setdefault(core_of(cpu), []).append(cpu)
    return [tuple(members) for members in by_core.values()]


def cgroup_cpus(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> int | None:
    """Whole processors that the control group's quota amounts to; None without a quota."""
    try:
        quota, period = path.read_text().split()[:2]
        return None if quota == "max" else max(1, ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return None


def divide(units: Sequence[tuple[int, ...]], parts: int, index: int) -> tuple[int, ...]:
    """Processors of slice `index` of `parts`; with fewer cores than parts, slices take the cores in turn.

    So the first ones, which are at work in every test, share as little as can be.
    """
    count = len(units)
    if parts > count:
        return units[index % count]
    begin, end = index * count // parts, (index + 1) * count // parts
    return tuple(cpu for unit in units[begin:end] for cpu in unit)


def place(node_sets: Sequence[tuple[int, ...]], index: int, quota: int | None = None) -> Placement:
    """The placement of the node's rank `index`, from the processor sets that the launcher gave to all its ranks."""
    slices = [_slice(node_sets, other) for other in range(len(node_sets))]
    mine = set(slices[index])
    sharers = sum(1 for other, cpus in enumerate(slices) if other != index and mine & set(cpus))
    threads = len(cores(slices[index]))
    if quota is not None:
        threads = min(threads, max(1, quota // len(node_sets)))
    return Placement(slices[index], threads, sharers)


def _slice(node_sets: Sequence[tuple[int, ...]], index: int) -> tuple[int, ...]:
    same = [other for other, cpus in enumerate(node_sets) if cpus == node_sets[index]]
    return divide(cores(node_sets[index]), len(same), same.index(index))


def apply(placement: Placement) -> None:
    """Bind the process and tell every thread pool its size, by the environment they read when first imported."""
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
