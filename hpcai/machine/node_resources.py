"""What MPI takes of a node when it starts: descriptors and shared memory, and what killed jobs left of the latter."""

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hpcai import clock
from hpcai.errors import LaunchError
from hpcai.machine import launcher
from hpcai.watch import left_behind

SHARED = Path(left_behind.FOLDER)
SEGMENTS = f"{left_behind.MPICH}*"  # which are left if ranks are killed
MOST_FILES = 4096  # that the soft limit is raised to, as far as the hard one allows
FEWEST_FILES = 64  # 2 ranks need between 32 and 48
SHARED_OF_RANK = 1_100_000  # bytes of MPICH's segment for each rank of a node
AGE = 60.0  # seconds; a younger segment may be of a job that starts


def prepare(environment: Mapping[str, str]) -> None:
    """Raise the limit of open files, remove what killed jobs left. Before MPI starts.

    LaunchError if descriptors or shared memory do not suffice: MPI would crash. Of a node that has enough shared memory
    in all, only the first rank asks how much is free: another one may have taken its part already.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if max(soft, most) < FEWEST_FILES:
        raise LaunchError(f"a rank may open {max(soft, most)} files; allowed: at least {FEWEST_FILES} (ulimit -n)")
    first = launcher.local_rank(environment) == 0
    if first:
        remove_segments(SHARED)
    _check_shared(launcher.local_size(environment), first)


def _check_shared(ranks: int, of_free: bool) -> None:
    with suppress(FileNotFoundError):
        facts = os.statvfs(SHARED)
        found, needed = (facts.f_bavail if of_free else facts.f_blocks) * facts.f_frsize, ranks * SHARED_OF_RANK
        if facts.f_blocks > 0 and found < needed:
            raise LaunchError(f"{SHARED} has {found} bytes free; allowed: at least {needed} for {ranks} ranks here")


def remove_segments(folder: Path) -> None:
    """Remove segments of this user that none of its processes has mapped or open, and that are older than AGE."""
    with suppress(OSError):  # of several jobs that start, one removes them
        found = {path: path.lstat() for path in folder.glob(SEGMENTS)}
        left = {path: facts for path, facts in found.items() if facts.st_uid == os.geteuid() and _is_old(facts)}
        used = {*_used()} if left else set()
        for path, facts in left.items():
            if (facts.st_dev, facts.st_ino) not in used:
                path.unlink()


def _is_old(facts: os.stat_result) -> bool:
    return clock.utc_instant().timestamp() - facts.st_ctime > AGE


def _used() -> Iterator[tuple[int, int]]:
    """Device and inode of what this user's processes have mapped or open.

    Not of those that the system hides: it hides what cannot be a rank, such as the user's login.
    """
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is hidden
                if process.stat().st_uid == os.geteuid():
                    yield from _inodes(process)


def _inodes(process: Path) -> Iterator[tuple[int, int]]:
    for line in (process / "maps").read_text("utf-8", "replace").splitlines():
        _, _, _, device, inode, *_ = line.split(maxsplit=5)
        major, minor = (int(part, 16) for part in device.split(":"))
        yield os.makedev(major, minor), int(inode)
    for descriptor in os.listdir(process / "fd"):
        with suppress(FileNotFoundError):  # it was closed
            facts = os.stat(process / "fd" / descriptor)
            yield facts.st_dev, facts.st_ino
