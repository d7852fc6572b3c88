"""Kernels that do not compute all of their timed calls: wrappers of a provider's `prepare`, each with one fault."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Skips = Callable[["Kernel", int], bool]  # (state, set of operands) -> whether the call returns without computing


@dataclass
class Kernel:
    """What a faulty kernel remembers: calls so far, those since the last poisoning, and sets of operands by them."""

    calls: int = 0
    of_block: int = 0
    sets: set[int] = field(default_factory=set)
    sets_of_block: set[int] = field(default_factory=set)

    def begin_block(self) -> None:
        self.of_block = 0
        self.sets_of_block.clear()

    def count(self, number: int) -> None:
        self.calls += 1
        self.of_block += 1
        self.sets.add(number)
        self.sets_of_block.add(number)


SKIPS: dict[str, Skips] = {
    "computes once": lambda kernel, _: kernel.calls > 0,
    "computes once in a block": lambda kernel, _: kernel.of_block > 0,
    "computes once for each set of operands": lambda kernel, number: number in kernel.sets,
    "computes once in a block for each set": lambda kernel, number: number in kernel.sets_of_block,
    "computes four times and then returns": lambda kernel, _: kernel.calls > 3,
    "skips every second call": lambda kernel, _: kernel.calls % 2 == 1,
    "never computes": lambda kernel, _: True,
}


def skipping(skips: Skips) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A backend whose calls return without computing where `skips` says so."""

    def wrapped(prepare: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: [_skipping(way, skips) for way in prepare(*arguments)]

    return wrapped


def _skipping(way: Any, skips: Skips) -> Any:
    kernel, numbers = Kernel(), iter(range(10))

    def watched(call: Callable[[], Any]) -> Callable[[], None]:
        number = next(numbers)

        def faulty() -> None:
            skipped = skips(kernel, number)
            kernel.count(number)
            if not skipped:
                call()

        return faulty

    def poison() -> None:
        kernel.begin_block()
        way.poison_result()

    return way._replace(call=watched(way.call), bind=lambda data: watched(way.bind(data)), poison_result=poison)


def of_other_set(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """A backend that computes the first set of operands, whichever it is asked for, after its first calls."""
    return lambda *arguments: [way._replace(bind=lambda data, way=way: way.call) for way in prepare(*arguments)]


def half_of_the_rows(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """A backend whose second half of the result stays as it is, after two calls."""

    def faulty(way: Any) -> Any:
        calls = iter(range(10**9))

        def watched(call: Callable[[], Any]) -> Callable[[], None]:
            def half() -> None:
                before = np.array(way.result())
                call()
                if next(calls) > 1:
                    after = way.result()
                    after[len(after) // 2 :] = before[len(after) // 2 :]

            return half

        return way._replace(call=watched(way.call), bind=lambda data: watched(way.bind(data)))

    return lambda *arguments: [faulty(way) for way in prepare(*arguments)]


def fewer_steps(by: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An FMA peak of fewer steps that add as much more: its result is right."""

    def wrapped(prepare: Callable[..., Any]) -> Callable[..., Any]:
        def prepared(shape: Any, direction: str, data: Any, *rest: Any) -> Any:
            less = type(shape)(shape.sums, shape.steps // by)
            ways = prepare(less, direction, data._replace(term=by * data.term), *rest)
            return [
                way._replace(bind=lambda other, way=way: way.bind(other._replace(term=by * other.term))) for way in ways
            ]

        return prepared

    return wrapped
