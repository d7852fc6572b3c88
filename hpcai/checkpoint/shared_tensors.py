"""Tensors that replicas share, sent by the first of them."""

from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

LONGEST = 1 << 30  # bytes of a message


def broadcast_tensors(comm: MPI.Comm, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of rank 0 by name, on the host, the same on every rank. Collective."""
    facts = [(name, tuple(value.shape), value.dtype) for name, value in tensors.items()]
    described: list[tuple[str, tuple[int, ...], torch.dtype]] = comm.bcast(facts)
    found = tensors if comm.rank == 0 else {name: torch.empty(shape, dtype=kind) for name, shape, kind in described}
    for name, _, _ in described:
        _broadcast(comm, found[name])
    return found


def _broadcast(comm: MPI.Comm, tensor: Tensor) -> None:
    data: np.ndarray[Any, Any] = tensor.reshape(-1).view(torch.uint8).numpy()
    for begin in range(0, len(data), LONGEST):
        comm.Bcast(data[begin : begin + LONGEST])
