"""Of what takes long a share in every run of the tests, the rest by `make test-slow`."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
TURNS = 4
LATER = [pytest.param(turn, marks=pytest.mark.slow) for turn in range(1, TURNS)]
IN_TURNS = pytest.mark.parametrize("turn", [0, *LATER])


def of_turn(every: Iterable[T], turn: int) -> list[T]:
    """Those of all that it is the turn of."""
    return [*every][turn::TURNS]


def every_other(cases: Iterable[Sequence[Any]]) -> list[Any]:
    """The cases of which every second one is slow."""
    return [pytest.param(*case, marks=[pytest.mark.slow] * (index % 2)) for index, case in enumerate(cases)]
