"""Samples of the parameters of a test: some for `make test`, some of the others for `make test-slow`.

The rest is exhaustive, for `make test-exhaustive`. Of any test with more cases than FEW that many stay fast, and SOME
of the others are slow.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
PARTS = 8
ONE_OF = 8
FEW = 3  # cases of a test in `make test`
SOME = 4  # of its other cases in `make test-slow`
NOT_SAMPLED = ("slow", "exhaustive", "network", "sequence")
SLOW, EXHAUSTIVE = pytest.mark.slow, pytest.mark.exhaustive


def on_ranks(count: int, *marks: pytest.MarkDecorator) -> Any:
    """A case that runs on so many ranks."""
    return pytest.param(count, marks=[pytest.mark.parallel(count), *marks])


def one_in(step: int, cases: Iterable[Any]) -> list[Any]:
    """Every `step`-th case from the first one on is fast."""
    return _marked([(case, index % step == 0) for index, case in enumerate(cases)])


def fast(chosen: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """The chosen cases are fast."""
    return _marked([(case, case in chosen) for case in cases])


def slow(chosen: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """The chosen cases are slow, the others exhaustive."""
    return [_with(SLOW if case in chosen else EXHAUSTIVE, case) for case in cases]


def slow_one_in(step: int, cases: Iterable[Any]) -> list[Any]:
    """Every `step`-th case from the first one on is slow, the others are exhaustive."""
    every = [*cases]
    return slow(every[::step], every)


def mark_many(items: Iterable[pytest.Item]) -> None:
    """Of the fast cases of each test about FEW, at equal distances, stay fast; about SOME of the others become slow."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in NOT_SAMPLED):
            cases[item.nodeid.partition("[")[0]].append(item)
    for each in cases.values():
        others = _left_out(each, FEW)
        for item in others:
            item.add_marker("slow")
        for item in _left_out(others, SOME):
            item.add_marker("exhaustive")


def _left_out(cases: Sequence[T], stay: int) -> list[T]:
    """All but about so many, at equal distances."""
    step = -(-len(cases) // stay)
    return [case for index, case in enumerate(cases) if index % step]


def _marked(cases: Iterable[tuple[Any, bool]]) -> list[Any]:
    """Of the cases that are not fast, every ONE_OF-th from the first one on is slow, the others are exhaustive."""
    others = count()
    return [case if is_fast else _with(_mark(next(others)), case) for case, is_fast in cases]


def _mark(place: int) -> pytest.MarkDecorator:
    return EXHAUSTIVE if place % ONE_OF else SLOW


def _with(mark: pytest.MarkDecorator, case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=mark)


def of_part(every: Iterable[T], part: int) -> list[T]:
    """The cases of one part."""
    return [*every][part::PARTS]


IN_PARTS = pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=EXHAUSTIVE) for part in range(1, PARTS))])
