"""Tensors that replicas share, sent by the first of them."""

from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

Dimensions = tuple[int, ...]

LONGEST = 1 << 30  # bytes of a message


def broadcast_tensors(comm: MPI.Comm, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of rank 0 by name, on the host, the same on every rank. Collective."""
    facts = [(name, tuple(value.shape), value.stride(), value.dtype) for name, value in tensors.items()]
    described: list[tuple[str, Dimensions, Dimensions, torch.dtype]] = comm.bcast(facts)
    if comm.rank > 0:
        tensors = {name: torch.empty_strided(shape, strides, dtype=kind) for name, shape, strides, kind in described}
    for value in tensors.values():
        _broadcast(comm, value)
    return tensors


def _broadcast(comm: MPI.Comm, tensor: Tensor) -> None:
    """In the order of the indices; optimisers count on the order in memory, which stays that of rank 0."""
    sent = tensor.contiguous()
    data: np.ndarray[Any, Any] = sent.reshape(-1).view(torch.uint8).numpy()
    for begin in range(0, len(data), LONGEST):
        comm.Bcast(data[begin : begin + LONGEST])
    tensor.copy_(sent)
