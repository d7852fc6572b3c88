"""What a rank has to know of the other shards of a model to compare its step with the formula."""

from collections.abc import Mapping

import numpy as np
from mpi4py import MPI


class OtherShards:
    """The ranks that have the other shards of a replica's stage, by MPI in float64.

    All methods are collective over them; `anywhere` over all `parts` of the replica.
    """

    def __init__(self, comm: MPI.Comm = MPI.COMM_SELF, parts: MPI.Comm | None = None) -> None:
        self._comm, self._parts = comm, parts or comm

    @property
    def none(self) -> bool:
        """Whether this rank has the whole model."""
        return self._comm.size == 1

    def anywhere(self, found: bool) -> bool:
        """Whether something was found on any rank of the replica."""
        return self._parts.allreduce(found, MPI.LOR)

    def norms(self, own: Mapping[str, float]) -> dict[str, float]:
        """By name, the norm of what all other ranks have together."""
        if not own:
            return {}
        every = np.array(self._comm.allgather([*own.values()]))
        others = np.delete(every, self._comm.rank, axis=0)
        return dict(zip(own, np.linalg.norm(others, axis=0).tolist(), strict=True))
