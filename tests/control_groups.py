"""Control groups with a memory limit, version 1 or 2, for jobs of tests. Only root can make them."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from launch import wait_until

from hpcai.machine.memory import FILES, GROUPS, PROC, _fields, _groups

# By version: the limits of memory with swap, and the file that counts processes killed for want of memory.
WITH_SWAP = {2: ("memory.swap.max", lambda nbytes: 0), 1: ("memory.memsw.limit_in_bytes", lambda nbytes: nbytes)}
EVENTS = {2: "memory.events", 1: "memory.oom_control"}


class ControlGroup:
    """A group made for a test; its processes share `limit` bytes."""

    def __init__(self, folder: Path, version: int, home: Path) -> None:
        self.folder, self._version, self._home = folder, version, home

    @property
    def limit_file(self) -> Path:
        """The file with the limit, which the program names."""
        return self.folder / FILES[self._version][0]

    @property
    def killed(self) -> int:
        """Processes that the kernel has killed because the group needed more."""
        return _fields(self.folder / EVENTS[self._version])["oom_kill"]

    def limit(self, nbytes: int) -> None:
        """Limit the group, swap included."""
        self.limit_file.write_text(str(nbytes))
        name, value = WITH_SWAP[self._version]
        with suppress(OSError):  # a kernel without accounts of swap
            (self.folder / name).write_text(str(value(nbytes)))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This process is in the group while the block runs, and so are those that it starts, to their end."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self._home / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def control_group() -> Iterator[ControlGroup | None]:
    """A control group below one of this process, removed at the end; None where it cannot be made."""
    group = _made()
    try:
        yield group
    finally:
        if group:
            assert wait_until(lambda: _removed(group.folder), 10.0), f"{group.folder} still has processes"


def _made() -> ControlGroup | None:
    """In version 2 only a group without processes has children: then that of an ancestor."""
    homes: dict[int, Path] = {}
    for parent, version in _groups(PROC / "self/cgroup", GROUPS):
        homes.setdefault(version, parent)
        made = ControlGroup(parent / f"hpcai-test-{uuid.uuid4().hex}", version, homes[version])
        with suppress(OSError):
            made.folder.mkdir()
            if os.access(made.limit_file, os.W_OK):
                return made
            made.folder.rmdir()
    return None


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()
