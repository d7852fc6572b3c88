"""Signals that ask a run to end in good order: noted here, acted on at the next step.

The same signal again, a moment later, ends the process at once: whoever sends it twice will not wait.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

from hpcai import clock

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
SAME = 1.0  # seconds: a terminal and a launcher that passes it on send one wish twice

_caught: dict[str, float] = {}
_listeners: list[Callable[[], None]] = []


def listen(*listeners: Callable[[], None]) -> None:
    """From now on the process notes these signals instead of ending; idempotent. Main thread only.

    `listeners` are called at each signal.
    """
    _listeners[:] = listeners
    for number in ASKING:
        signal.signal(number, _note)


def caught() -> str:
    """The name of the first signal noted; empty without one."""
    return next(iter(_caught), "")


def _note(number: int, frame: FrameType | None) -> None:
    name = signal.Signals(number).name
    for listener in _listeners:
        listener()
    if name in _caught and clock.now() - _caught[name] > SAME:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    _caught[name] = clock.now()
