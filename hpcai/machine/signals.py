"""Signals that request an orderly shutdown: recorded here, acted on at the next step.

The same signal again, more than a second later, ends the process at once.
"""

import faulthandler
import os
import signal
import sys
from types import FrameType

from hpcai import clock

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
STACKS = signal.SIGUSR2  # which prints the Python stacks of this process, even if it waits in a library
SAME = 1.0  # seconds: one Ctrl-C can arrive twice, from the terminal and from the launcher

_caught: dict[str, float] = {}


def record_signals() -> None:
    """Record these signals from now on instead of ending; idempotent. Main thread only.

    SIGHUP stays ignored where it is: nohup asks for that.
    """
    for number in ASKING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _note)
    faulthandler.register(STACKS, sys.__stderr__ or 2, all_threads=True)


def received_signal() -> str:
    """Name of the first signal received; empty if there was none."""
    return next(iter(_caught), "")


def _note(number: int, frame: FrameType | None) -> None:
    name = signal.Signals(number).name
    if name in _caught and clock.now() - _caught[name] > SAME:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    _caught[name] = clock.now()
