"""Control groups that give each of several hosts a share of a processor, while the context lasts.

Needed: root, and the controller of processors, of version 1 or 2.
"""

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))  # of version 1, of version 2
PERIOD = 10_000  # us; short, so that a rank never stands still for long
ENTER = 'echo 0 > "{folder}/$(hostname)/cgroup.procs" && exec taskset -c "$(({cpus}))" "$@"'


def obstacle() -> str:
    """Why no control groups can be made, in one line; empty if they can."""
    return "" if _root() else "control groups of processors are not there, or need root"


def _root() -> Path | None:
    return next((root for root in ROOTS if _limit(root) and os.access(root, os.W_OK)), None)


def _limit(root: Path) -> bool:
    """Whether groups below have a limit of processors."""
    if root == ROOTS[0]:
        return (root / "tasks").exists()
    controllers = root / "cgroup.subtree_control"
    return controllers.exists() and "cpu" in controllers.read_text().split()


class Slowed:
    """A group for each host, with so much of a processor; processes enter it by the words before their command."""

    def __init__(self, hosts: list[str], share: float) -> None:
        root = _root()
        assert root is not None, obstacle()
        self._folder, self._hosts, self._share = root / f"hpcai-{uuid.uuid4().hex}", hosts, share

    def __enter__(self) -> Self:
        self._folder.mkdir()
        if (self._folder / "cgroup.subtree_control").exists():
            (self._folder / "cgroup.subtree_control").write_text("+cpu")
        for host in self._hosts:
            group, quota = self._folder / host, round(self._share * PERIOD)
            group.mkdir()
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{quota} {PERIOD}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        deadline = time.monotonic() + 10
        for folder in (*(self._folder / host for host in self._hosts), self._folder):
            while folder.exists() and time.monotonic() < deadline:
                with suppress(OSError):  # its processes are ending
                    folder.rmdir()
                time.sleep(0.05)

    def command(self, arguments: list[str]) -> list[str]:
        """The command within the group of the host that it is started on, on one processor of the machine."""
        cpus = f"1${{h##*[!0-9]}} % {os.cpu_count()}"  # by the number at the end of its name, if it has one
        script = "h=$(hostname); " + ENTER.format(folder=self._folder, cpus=cpus)
        return ["sh", "-c", script, "sh", *arguments]
