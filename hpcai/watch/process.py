"""Processes by /proc: state, exit status, and a kill that cannot hit another process with a reused number."""

import os
import signal
from contextlib import suppress
from pathlib import Path

STATE, PARENT, STARTED, EXIT_STATUS = 0, 1, 19, 49  # fields of /proc/PID/stat after the name (proc(5))
STOPPED, ENDED = "T", ("Z", "X")


def _fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name; OSError if there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def started(pid: int) -> int:
    """When a process was started, in clock ticks since boot; -1 if there is none."""
    try:
        return int(_fields(pid)[STARTED])
    except (OSError, LookupError):
        return -1


def parent(pid: int) -> int:
    """Number of the parent process; 0 if there is none."""
    try:
        return int(_fields(pid)[PARENT])
    except (OSError, LookupError):
        return 0


class Process:
    """A process of this node, told apart by number and start. One that cannot be seen counts as neither."""

    def __init__(self, pid: int, start: int) -> None:
        self.pid = pid
        self._start = start
        self.seen = self._found() is not None

    def _found(self) -> list[str] | None:
        try:
            fields = _fields(self.pid)
        except OSError:
            return None
        return fields if int(fields[STARTED]) == self._start else None

    @property
    def alive(self) -> bool:
        """Whether it still runs, or is stopped; one that is about to end has an exit status already."""
        fields = self._found() if self.seen else None
        if fields is None or fields[STATE] in ENDED:
            return False
        return fields[EXIT_STATUS] == "0" or fields[STATE] == STOPPED  # whose status is the signal

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it."""
        fields = self._found() if self.seen else None
        return fields is not None and fields[STATE] == STOPPED

    @property
    def exit_status(self) -> int | None:
        """Status of a process that has ended, as wait(2) has it; None once its parent has asked, or if it runs."""
        fields = self._found() if self.seen else None
        return int(fields[EXIT_STATUS]) or None if fields else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it, if it is there."""
        if self.alive:
            with suppress(OSError):
                os.kill(self.pid, number)
