"""Memory of this process and of the node: use, limits, and the treatment of freed blocks by malloc and the collector.

A limit is the least of the node's free memory and of every control group of the process, version 1 or 2.
"""

import ctypes
import gc
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt
# Messages of torch, cuDNN, cuBLAS and oneDNN; torch has an exception class only for GPU memory.
SHORT = ("out of memory", "alloc", "not enough memory", "could not create a memory")
NEVER = -1
KIB = 1024
WORTH_RELEASING = 32 * KIB**2  # bytes
# By version of control groups: files of limit and use, and the statistics of use that the kernel can reclaim.
FILES = {
    2: ("memory.max", "memory.current", ("inactive_file",)),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file",)),
}


@dataclass(frozen=True, order=True)
class Limit:
    """Bytes that can still be used, and the file that they were read from."""

    nbytes: int
    source: str


@dataclass
class Released:
    """Resident bytes of this process after freed memory was last returned."""

    left: int = 0


_released = Released()


def available(proc: Path = PROC, groups: Path = GROUPS) -> Limit:
    """Bytes that this process and its children can still use on this node.

    proc, groups: the kernel's folders of processes and of control groups.
    """
    limits = [_free(proc / "meminfo"), *_group_limits(proc / "self/cgroup", groups)]
    return min(limits)


def _free(meminfo: Path) -> Limit:
    """MemAvailable of the node."""
    return Limit(_fields(meminfo)["MemAvailable:"] * KIB, str(meminfo))


def _fields(file: Path) -> dict[str, int]:
    """First number of each line by its first word."""
    words = (line.split() for line in file.read_text().splitlines())
    return {first: int(rest[0]) for first, *rest in words if rest and rest[0].isdecimal()}


def installed(proc: Path = PROC, groups: Path = GROUPS) -> int:
    """Bytes of memory of the node, or the lowest limit of its control groups."""
    limits = [_fields(proc / "meminfo")["MemTotal:"] * KIB]
    return int(min([*limits, *(_allowed(*group) for group in _groups(proc / "self/cgroup", groups))]))


def _allowed(folder: Path, version: int) -> float:
    """Bytes that a control group allows; infinite without a limit."""
    try:
        return int((folder / FILES[version][0]).read_text())
    except (OSError, ValueError):
        return inf


def _group_limits(membership: Path, groups: Path) -> Iterator[Limit]:
    for folder, version in _groups(membership, groups):
        with suppress(OSError, ValueError):  # the root has no limit in version 2
            yield _group_limit(folder, version)


def _groups(membership: Path, groups: Path) -> Iterator[tuple[Path, int]]:
    """The memory control groups of the process and their ancestors, each with its version."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            version = 2 if number == "0" else 1
            tree = groups if version == 2 else groups / "memory"
            yield from ((folder, version) for folder in _upwards(tree, path))


def _upwards(tree: Path, path: str) -> Iterator[Path]:
    """The group and its ancestors up to the root; only the root if a container hides the path."""
    inside = tree / path.strip("/")
    folder = inside if inside.is_dir() else tree
    for level in [folder, *folder.parents]:
        yield level
        if level == tree:
            break


def _group_limit(folder: Path, version: int) -> Limit:
    limit, usage, reclaimable = FILES[version]
    statistics = _fields(folder / "memory.stat")
    used = int((folder / usage).read_text()) - sum(statistics.get(name, 0) for name in reclaimable)
    return Limit(max(0, int((folder / limit).read_text()) - max(0, used)), str(folder / limit))


class Use:
    """Bytes in use of those `installed`; reads only control groups that have a limit."""

    def __init__(self, proc: Path = PROC, groups: Path = GROUPS) -> None:
        self._meminfo, self._installed = proc / "meminfo", installed(proc, groups)
        whole = _fields(self._meminfo)["MemTotal:"] * KIB
        self._groups = [group for group in _groups(proc / "self/cgroup", groups) if _allowed(*group) < whole]

    def nbytes(self) -> int:
        """Bytes in use now."""
        limits = [_free(self._meminfo), *(_group_limit(*group) for group in self._groups)]
        return max(0, self._installed - min(limits).nbytes)


def resident(proc: Path = PROC) -> int:
    """Bytes of this process in memory now."""
    return _fields(proc / "self/status")["VmRSS:"] * KIB


def peak(proc: Path = PROC) -> int:
    """Peak resident bytes of this process since its start or the last successful `reset_peak`."""
    try:
        return _fields(proc / "self/status")["VmHWM:"] * KIB
    except (OSError, KeyError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def reset_peak(proc: Path = PROC) -> bool:
    """Reset `peak`; whether the kernel allows that."""
    try:
        (proc / "self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error reports a lack of memory (not an illegal access)."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(words in message for words in SHORT)


def retain_freed_memory() -> None:
    """Make malloc keep freed memory and take large blocks from its heap, so that a step causes no page faults.

    By default glibc maps and unmaps large blocks each time: every step pays for every page (docs/TUNING.md).
    """
    with suppress(AttributeError, OSError):  # other C libraries have no mallopt
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, NEVER)


def suspend_collection() -> None:
    """Suspend garbage collection while libraries load, until `resume_collection`: it takes 0.4 s and finds nothing."""
    gc.disable()


def resume_collection() -> None:
    """Resume garbage collection without the loaded objects, which would cost 0.2 s a collection, inside timings too."""
    gc.freeze()
    gc.enable()


def release_unused() -> None:
    """Return freed memory to the system; between tests and after checks, never inside a timing.

    Nothing is returned where little has come since the last time: MPICH's UCX keeps a record of every range that is.
    """
    gc.collect()
    if resident() - _released.left >= WORTH_RELEASING:
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
        _released.left = resident()
