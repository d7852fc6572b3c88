"""A rank as the watcher of its node sees it: its process, its activity, and for how long it has made no step."""

import os
import stat
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from hpcai.watch import page
from hpcai.watch.page import Activity
from hpcai.watch.process import Process

Message = dict[str, Any]
SLOWEST = 10  # the watchdog waits at least so many times the slowest step seen
SAME = 1.0  # seconds: two equal signals within this time are one request


@dataclass(frozen=True)
class Sight:
    """What a watcher says of a rank. silent: seconds without progress in a loop of steps, or stopped by a signal."""

    rank: int
    host: str
    activity: Activity | None
    stopped: bool = False
    silent: float = 0.0
    overdue: bool = False
    signals: bytes = b""

    @property
    def group(self) -> int | None:
        """The group of the rank; None outside of groups, or where its activity is not known."""
        return self.activity.group if self.activity else None


def as_message(sight: Sight) -> Message:
    """A sight as a JSON message."""
    return {**asdict(sight), "signals": [*sight.signals]}


def from_message(message: Message) -> Sight:
    """The sight of a JSON message."""
    found = message["activity"]
    activity = None if found is None else Activity(**found)
    return Sight(**{**message, "activity": activity, "signals": bytes(message["signals"])})


class Rank:
    """One rank of this node."""

    def __init__(self, rank: int, host: str, process: Process, descriptor: int) -> None:
        """descriptor: of the activity's page, in the rank."""
        self.rank, self.host, self.process = rank, host, process
        self._page = _opened(process, descriptor)
        self._stderr = _opened(process, 2, os.O_WRONLY)
        self._last = self.activity()
        self._stopped = self._still = 0.0  # seconds: stopped by a signal; without progress
        self.slowest = 0.0  # seconds of the slowest step
        self.leaving = False  # it has said that it ends in good order, and may still be stopped by a signal
        self._fresh = True  # no step since the last change, which may take longer than others
        self._asked: list[tuple[int, float]] = []  # signals, and seconds since
        self._read = 0

    def close(self) -> None:
        """It has ended: the launcher may wait until nobody writes to its stderr."""
        for descriptor in (self._page, self._stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self._page = self._stderr = -1

    def lend_stderr(self) -> None:
        """Let this process print where the rank printed, if that is a pipe."""
        if self._stderr >= 0 and stat.S_ISFIFO(os.fstat(self._stderr).st_mode):
            os.dup2(self._stderr, sys.stderr.fileno())

    def activity(self) -> Activity | None:
        """What the rank does, or did when it died; None if its page cannot be read."""
        with suppress(OSError):
            return page.read(self._page) if self._page >= 0 else None
        return None

    def signals(self) -> bytes:
        """Numbers of the signals that the rank received."""
        with suppress(OSError):
            return page.read_signals(self._page) if self._page >= 0 else b""
        return b""

    def pass_time(self, seconds: float) -> None:
        """So much time has passed since the last call."""
        self._stopped = self._stopped + seconds if self.process.stopped else 0.0
        last, now = self._last, self.activity()
        self._last = now
        self._asked = [(number, since + seconds) for number, since in self._asked]
        if now is None or last is None or now.changes != last.changes:
            self._still, self._fresh = 0.0, True
        elif now.beats != last.beats:
            self._learn(now.watched)
        else:
            self._still += seconds

    def begin_anew(self) -> None:
        """Forget for how long there was no progress."""
        self._stopped = self._still = 0.0

    def _learn(self, watched: bool) -> None:
        """A step has ended."""
        if watched or not self._fresh:
            self.slowest = max(self.slowest, self._still)
        self._still, self._fresh = 0.0, False

    def overdue(self, watchdog: float) -> bool:
        """Whether the rank is stopped, or has made no step, for longer than the watchdog allows."""
        if self._stopped >= watchdog:
            return True
        watched = bool(self._last and self._last.watched) and not self.leaving
        return watched and self._still >= max(watchdog, SLOWEST * self.slowest)

    def insisting(self) -> int:
        """The signal that came a second time, more than SAME seconds after the first; 0 if none did."""
        received = self.signals()
        new, self._read = received[self._read :], len(received)
        again = [number for number in new if any(number == old and since > SAME for old, since in self._asked)]
        self._asked += [(number, 0.0) for number in new]
        return again[0] if again else 0

    def sight(self, watchdog: float = 0.0) -> Sight:
        """What there is to say of this rank now."""
        activity, stopped = self.activity(), self._stopped > 0
        silent = self._stopped if stopped else self._still
        overdue = watchdog > 0 and self.overdue(watchdog)
        return Sight(self.rank, self.host, activity, stopped, silent, overdue, self.signals())


def _opened(process: Process, descriptor: int, access: int = os.O_RDONLY) -> int:
    """A file of a rank, opened; -1 if it cannot be."""
    if process.seen:
        with suppress(OSError):
            return os.open(f"/proc/{process.pid}/fd/{descriptor}", access | os.O_CLOEXEC | os.O_NOCTTY)
    return -1
