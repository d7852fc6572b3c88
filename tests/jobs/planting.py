"""How a fault replaces the genuine function, and on which rank and in which step it happens."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from mpi4py import MPI

Fault = AbstractContextManager[Any]
RANK = MPI.COMM_WORLD.rank
WRONG_RANK = MPI.COMM_WORLD.size - 1
WRONG_STEP = 1


def replaced(owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> Fault:
    """`owner.name` is replaced by `make` of the genuine one while the fault lasts."""
    return patch.object(owner, name, make(getattr(owner, name)))
