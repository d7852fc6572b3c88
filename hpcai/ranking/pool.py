"""Many files, examined by several processes; only the small outcome of each is kept."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from hpcai.ranking.submission import Apart

Outcome = TypeVar("Outcome")
FEW = 8  # files that one process has examined before others have started
ENDED = "the process that verified it was ended, by lack of memory or a signal"


def examined(files: Sequence[Path], examine: Callable[[Path], Outcome], jobs: int) -> list[Outcome | Apart]:
    """The outcomes of `examine` in the order of the files."""
    if jobs == 1 or len(files) <= FEW:
        return [*map(examine, files)]
    found = _together(files, examine, jobs)
    return [_alone(path, examine) if each is None else each for path, each in zip(files, found, strict=True)]


def _together(files: Sequence[Path], examine: Callable[[Path], Outcome], jobs: int) -> list[Outcome | None]:
    """The outcomes; None from where on a process of the pool was ended."""
    with ProcessPoolExecutor(min(jobs, len(files)), mp_context=get_context("spawn")) as pool:
        return [_outcome(future) for future in [_submitted(pool, path, examine) for path in files]]


def _submitted(
    pool: ProcessPoolExecutor, path: Path, examine: Callable[[Path], Outcome]
) -> Future[Outcome] | None:
    """The future of a file; None if a process of the pool was ended already."""
    try:
        return pool.submit(examine, path)
    except BrokenProcessPool:
        return None


def _alone(path: Path, examine: Callable[[Path], Outcome]) -> Outcome | Apart:
    """The outcome of a file in a process of its own, so that it ends no other."""
    [found] = _together([path], examine, 1)
    return found or Apart(str(path), ENDED)


def _outcome(future: Future[Outcome] | None) -> Outcome | None:
    try:
        return future.result() if future else None
    except BrokenProcessPool:
        return None
