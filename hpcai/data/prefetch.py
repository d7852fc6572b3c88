"""Prefetching: an iterator that runs ahead of its consumer in a thread."""

from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Generic, NamedTuple, TypeVar

from hpcai.data.philox import Integers

T = TypeVar("T")

DEPTH = 2  # batches that a loader makes ready ahead of the training


def with_parameters(batches: Iterable[Integers], parameters: Iterable[T] | None) -> Iterator[tuple[Integers, T | None]]:
    """Index arrays, each with its parameters; None without parameters."""
    if parameters is None:
        return ((indices, None) for indices in batches)
    return zip(batches, parameters, strict=True)


class _Raised(NamedTuple):
    error: BaseException


class Prefetcher(Generic[T]):
    """Iterator that runs in a thread, at most `depth` items ahead of its consumer."""

    def __init__(self, items: Iterator[T], depth: int) -> None:
        self._items = items
        self._ready: SimpleQueue[T | _Raised] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()  # implemented in C
        for _ in range(depth):
            self._room.put(None)
        self._closed = False
        self._thread = Thread(target=self._run, name="hpcai-loader", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Prefetcher[T]":
        return self

    def __next__(self) -> T:
        item = self._ready.get()
        if isinstance(item, _Raised):
            raise item.error
        self._room.put(None)
        return item

    def close(self) -> None:
        """End the thread after its present item."""
        self._closed = True
        self._room.put(None)
        self._thread.join()

    def _may_go_on(self) -> bool:
        """Wait until an item may be made; False once the iterator is closed."""
        self._room.get()
        return not self._closed

    def _run(self) -> None:
        try:
            while self._may_go_on():
                self._ready.put(next(self._items))
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer, StopIteration as well
            self._ready.put(_Raised(error))
