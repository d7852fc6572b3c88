"""What this rank does, for the watcher of its node: test, group, phase, epoch, and a count of steps.

A mark is one addition in memory. Only the main thread states phases: others work for it.
"""

import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from tempfile import TemporaryFile
from typing import ParamSpec, TypeVar

from hpcai.watch import page

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# Phases whose loops of steps are watched: every shape has run in the warm-up, so that no step compiles.
WATCHED_PHASES = ("training", "validation", page.TOGETHER)

_memory: memoryview = memoryview(bytearray(page.SIZE))  # until `open_page`, and without a watcher
_words = _memory[: page.WORDS_END].cast("q")
_phase = ""


def open_page() -> int:
    """Put this rank's activity into memory that other processes can map, and signals too; its file descriptor.

    OSError if the system refuses. Main thread only.
    """
    global _memory, _words
    descriptor = _file_in_memory()
    os.ftruncate(descriptor, page.SIZE)
    shared = memoryview(mmap.mmap(descriptor, page.SIZE))
    shared[:] = _memory
    _memory, _words = shared, shared[: page.WORDS_END].cast("q")
    # Python writes the number of a signal at once, even if the main thread waits in a library.
    os.lseek(descriptor, page.SIGNALS_AT, os.SEEK_SET)
    os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    return descriptor


def _file_in_memory() -> int:
    """Descriptor of a file without a name; where Python lacks memfd_create, in the folder of temporary files."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hpcai-activity")
    with TemporaryFile() as file:
        return os.dup(file.fileno())


def beat() -> None:
    """Mark the beginning or the end of a step: all ranks of the group pass as many."""
    _words[page.BEATS] = (_words[page.BEATS] | page.PARTS) + 1


def pass_part() -> None:
    """Mark a part of a step, after which the rank may wait for others."""
    _words[page.BEATS] += 1


def enter_group(number: int) -> None:
    """This rank works in a group, until the test ends."""
    _set(page.GROUP, number + 1)


def step(work: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorator of a step of the loop."""

    @wraps(work)
    def marked(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        beat()
        result = work(*arguments, **keywords)
        beat()
        return result

    return marked


@contextmanager
def test(number: int, workload: str) -> Iterator[None]:
    """Context manager: a test."""
    _state(page.WORKLOAD_AT, page.WORKLOAD_BYTES, workload)
    for word, value in ((page.TEST, number), (page.GROUP, 0), (page.EPOCH, 0), (page.LOOPS, 0)):
        _set(word, value)
    try:
        yield
    finally:
        for word in (page.TEST, page.GROUP, page.EPOCH):
            _set(word, 0)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Context manager: a phase, inside which the watchdog does not count steps unless a loop of steps begins."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer, watched = _phase, _words[page.WATCHED]
    _enter(name, 0)
    try:
        yield
    finally:
        _enter(outer, watched)


@contextmanager
def steps(epoch: int | None = None, watched: bool = False) -> Iterator[None]:
    """Context manager: a loop each of whose steps calls `beat`; the watchdog counts in the phases that are watched.

    epoch: its number, from 1, where one begins: the watchdog then counts until the phase ends, since a GPU is behind.
    watched: in any phase; the same loops on all ranks of a group.
    """
    _words[page.EPOCH] = _words[page.EPOCH] if epoch is None else epoch
    outer, counts = _words[page.WATCHED], int(watched or _phase in WATCHED_PHASES)
    _words[page.BEATS] = 0
    _words[page.LOOPS] += counts  # elsewhere ranks may differ in their number
    _set(page.WATCHED, counts)
    try:
        yield
    finally:
        _words[page.BEATS] = page.LAST
        _set(page.WATCHED, outer if epoch is None else counts)


def _enter(name: str, watched: int) -> None:
    global _phase
    _phase = name
    _words[page.WATCHED] = 0  # before the name changes
    if name == page.TOGETHER:
        _words[page.LOOPS] = page.LOOPS_TOGETHER
    _state(page.PHASE_AT, page.PHASE_BYTES, name.replace("_", " "))
    _set(page.WATCHED, watched)


def _state(at: int, nbytes: int, text: str) -> None:
    _memory[at : at + nbytes] = page.encoded(text, nbytes)


def _set(word: int, value: int) -> None:
    _words[word] = value
    _words[page.CHANGES] += 1
