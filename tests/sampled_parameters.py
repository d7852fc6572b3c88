"""A sample of the parameters of a test for `make test`; the others are slow, for `make test-slow`."""

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
PARTS = 8


def one_in(step: int, cases: Iterable[Any]) -> list[Any]:
    """Every `step`-th case from the first one on is fast."""
    return [_slow(case) if index % step else case for index, case in enumerate(cases)]


def fast(chosen: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """The chosen cases are fast."""
    return [case if case in chosen else _slow(case) for case in cases]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=SLOW)


def of_part(every: Iterable[T], part: int) -> list[T]:
    """The cases of one part."""
    return [*every][part::PARTS]


SLOW = pytest.mark.slow
IN_PARTS = pytest.mark.parametrize("part", one_in(PARTS, range(PARTS)))
