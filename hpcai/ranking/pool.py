"""Many files, examined by several processes; only the small outcome of each is kept."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from hpcai.ranking.submission import Apart

Task = TypeVar("Task")
Made = TypeVar("Made")
SAFE = "PYTHONSAFEPATH"
FEW = 8  # tasks that one process has done before others have started
ENDED = "the process that verified it was ended, by lack of memory, a signal or an error"


def examined(files: Sequence[Path], examine: Callable[[Path], Made], jobs: int) -> list[Made | Apart]:
    """The outcomes of `examine` in the order of the files."""
    made = mapped(examine, files, jobs)
    return [each or Apart(str(path), ENDED) for path, each in zip(files, made, strict=True)]


def mapped(function: Callable[[Task], Made], tasks: Sequence[Task], jobs: int) -> list[Made | None]:
    """What a function makes of each task; None where its process was ended. The tasks are given to all processes."""
    if jobs == 1 or len(tasks) <= FEW:
        return [function(task) for task in tasks]
    made = _together(function, tasks, jobs)
    return [_alone(function, task) if each is None else each for task, each in zip(tasks, made, strict=True)]


def _together(function: Callable[[Task], Made], tasks: Sequence[Task], jobs: int) -> list[Made | None]:
    """The outcomes; None from where on a process of the pool was ended."""
    with _safe_path(), ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=get_context("spawn")) as pool:
        return [_outcome(future) for future in [_submitted(pool, function, task) for task in tasks]]


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that are started do not import modules of the current folder."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE]
        else:
            os.environ[SAFE] = before


def _submitted(pool: ProcessPoolExecutor, function: Callable[[Task], Made], task: Task) -> Future[Made] | None:
    """The future of a task; None if a process of the pool was ended already."""
    try:
        return pool.submit(function, task)
    except BrokenProcessPool:
        return None


def _alone(function: Callable[[Task], Made], task: Task) -> Made | None:
    """The outcome of a task in a process of its own, so that it ends no other."""
    [found] = _together(function, [task], 1)
    return found


def _outcome(future: Future[Made] | None) -> Made | None:
    """The outcome; None also where it failed, or cannot be sent between processes."""
    try:
        return future.result() if future else None
    except Exception:  # noqa: BLE001, BrokenProcessPool, or any error of the task: no file ends the ranking
        return None
