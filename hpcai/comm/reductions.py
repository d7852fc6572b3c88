"""Reductions of named numbers over all ranks, in constant memory, with the same result on every rank."""

from collections.abc import Mapping

from mpi4py import MPI


def sums(comm: MPI.Comm, values: Mapping[str, int]) -> dict[str, int]:
    """Sums by name, the names in the same order on every rank; Python's integers, which never overflow. Collective."""
    return {name: int(comm.allreduce(value)) for name, value in values.items()}


def largest(comm: MPI.Comm, values: Mapping[str, float]) -> dict[str, float]:
    """Maxima by name; the names in the same order on every rank. Collective."""
    return {name: comm.allreduce(value, MPI.MAX) for name, value in values.items()}
