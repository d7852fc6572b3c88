"""How a fault takes the place of what is genuine, and on which rank and step it happens."""

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
    """`owner.name` is what `make` makes of the genuine one, for as long as the fault lasts."""
    return patch.object(owner, name, make(getattr(owner, name)))
