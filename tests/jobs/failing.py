"""The real program with a rank that fails: failing.py RANK PLACE COUNT HOW [and RANK ...] [arguments of bench.py].

It fails the COUNT-th time that it reaches the place, and just before leaves the file `failed` behind.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any, NoReturn
from unittest.mock import patch

from mpi4py import MPI

from hpcai.attempts import Attempts
from hpcai.comm import world as worlds
from hpcai.comm.collective_timing import CollectiveTimer
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data.image_loader import Loader
from hpcai.main import main
from hpcai.monitoring.memory_usage import Usage
from hpcai.preflight import residuals
from hpcai.report import files, replacing
from hpcai.search import group_runner, journal
from hpcai.search.group_runner import GroupRunner
from hpcai.train import classifier_ensemble
from hpcai.train.evaluation_content import EvaluationContent
from hpcai.train.loop import Training
from hpcai.train.validation import Validation
from hpcai.workloads.kernels import measure
from hpcai.workloads.nas import measure as nas

PLACES: dict[str, tuple[Any, str]] = {
    "set-up": (residuals, "worst_residuals"),
    "training": (Training, "_rate"),
    "loading": (Loader, "_load"),  # in the thread that loads ahead
    "validating": (Validation, "run"),
    "evaluating": (EvaluationContent, "begin"),  # a model in each validation, then all together, then out of bag
    "voting": (classifier_ensemble, "evaluate"),
    "multiplying": (measure, "measured"),
    "communicating": (CollectiveTimer, "row"),
    "trying": (GroupRunner, "_run_trial"),
    "noting": (journal, "append_line"),
    "keeping": (group_runner, "save_weights"),
    "totalling": (nas, "totals"),  # of a search that has ended
    "waiting": (Shutdown, "barrier"),  # where idle ranks sleep
    "counting": (Usage, "measured"),  # of a test that has ended
    "remaking": (World, "remake"),
    "recovering": (Attempts, "_begin_again"),
    "closing": (Attempts, "_closed"),
    "leaving": (worlds, "_lost_in_the_end"),  # after the last line, and after the watcher was told of the end
    "writing": (files, "write"),
    "putting": (replacing, "_put"),  # each file in its place
}


def fail() -> NoReturn:
    raise RuntimeError("a fault of this rank")


def fail_without_output() -> NoReturn:
    """Nothing reads the output of this rank any more, as when the program at the end of its pipe has ended."""
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, 1)
    print("lost words")
    fail()


def signal_itself(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def hang() -> NoReturn:
    while True:
        sleep(1.0)


def hang_in_library() -> NoReturn:
    """Hang in a call that keeps Python's lock, so that no other thread of this rank runs."""
    sleeping = ctypes.PyDLL(None).sleep
    while True:
        sleeping(1000)


HOW: dict[str, Callable[[], Any]] = {
    "raise": fail,
    "raise-without-output": fail_without_output,
    "exit-0": lambda: sys.exit(0),
    "exit-5": lambda: sys.exit(5),
    "os-exit-7": lambda: os._exit(7),
    "kill": lambda: signal_itself(signal.SIGKILL),
    "stop": lambda: signal_itself(signal.SIGSTOP),
    "hang": hang,
    "hang-in-library": hang_in_library,
    "pause": lambda: sleep(4.0),
    "terminate": lambda: signal_itself(signal.SIGTERM),
    "abort": lambda: signal_itself(signal.SIGABRT),
    "segmentation-fault": lambda: signal_itself(signal.SIGSEGV),
}


def plant(rank: int, place: str, count: int, how: str) -> None:
    """Make that rank fail there from now on."""
    owner, name = PLACES[place]
    genuine, visits = getattr(owner, name), iter(range(1, sys.maxsize))

    def failing(*arguments: Any, **keywords: Any) -> Any:
        if MPI.COMM_WORLD.rank == rank and next(visits) == count:
            Path("failed").touch()
            HOW[how]()
        return genuine(*arguments, **keywords)

    patch.object(owner, name, failing).start()


if __name__ == "__main__":
    arguments = ["and", *sys.argv[1:]]
    while arguments[:1] == ["and"]:
        (_, rank, place, count, how), arguments = arguments[:5], arguments[5:]
        plant(int(rank), place, int(count), how)
    sys.exit(main(arguments))
