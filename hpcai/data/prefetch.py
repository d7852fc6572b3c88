"""A thread that works ahead of the one who takes what it makes."""

from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Generic, NamedTuple, TypeVar

from hpcai.data.philox import Integers

T = TypeVar("T")


def with_parameters(batches: Iterable[Integers], parameters: Iterable[T] | None) -> Iterator[tuple[Integers, T | None]]:
    """Index arrays with what belongs to each; None where there is nothing."""
    if parameters is None:
        return ((indices, None) for indices in batches)
    return zip(batches, parameters, strict=True)


class _Raised(NamedTuple):
    error: BaseException


class Prefetcher(Generic[T]):
    """An iterator that runs in a thread, at most `depth` items ahead of the one who takes them."""

    def __init__(self, items: Iterator[T], depth: int) -> None:
        self._items = items
        self._ready: SimpleQueue[T | _Raised] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()  # one of the interpreter's own, not written in Python
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
        """Ends the thread, after the item it is working on."""
        self._closed = True
        self._room.put(None)
        self._thread.join()

    def _asked(self) -> bool:
        """Wait until there is room; whether there is still somebody who asks."""
        self._room.get()
        return not self._closed

    def _run(self) -> None:
        try:
            while self._asked():
                self._ready.put(next(self._items))
        except BaseException as error:  # noqa: BLE001 - raised again by the one who waits, StopIteration as well
            self._ready.put(_Raised(error))
