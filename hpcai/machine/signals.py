"""Signals that request an orderly shutdown: recorded here, acted on at the next step.

The same signal again, more than a second later, ends the process at once.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

from hpcai import clock

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
SAME = 1.0  # seconds: one Ctrl-C can arrive twice, from the terminal and from the launcher

_caught: dict[str, float] = {}
_listeners: list[Callable[[], None]] = []


def record_signals(*listeners: Callable[[], None]) -> None:
    """Record these signals from now on instead of ending; idempotent. Main thread only.

    `listeners` are called at each signal.
    """
    _listeners[:] = listeners
    for number in ASKING:
        signal.signal(number, _note)


def received_signal() -> str:
    """Name of the first signal received; empty if there was none."""
    return next(iter(_caught), "")


def _note(number: int, frame: FrameType | None) -> None:
    name = signal.Signals(number).name
    for listener in _listeners:
        listener()
    if name in _caught and clock.now() - _caught[name] > SAME:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    _caught[name] = clock.now()
