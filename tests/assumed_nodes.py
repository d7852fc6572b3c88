"""All ranks of a test as one group, with nodes made of consecutive ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from socket import gethostname
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hpcai.comm.grid import Group


@contextmanager
def grouped(ranks_per_node: int = 2) -> Iterator["Group"]:
    """All ranks as one group, so many of them a node."""
    from mpi4py import MPI
    from tiny import CPU

    from hpcai.comm.grid import split
    from hpcai.comm.nodes import VARIABLE
    from hpcai.comm.rendezvous import process_group

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(ranks_per_node))
        group = split(MPI.COMM_WORLD, 1, MPI.COMM_WORLD.size, "row")
        assert group is not None
        with process_group(group, gethostname(), CPU):
            yield group
        group.free()
