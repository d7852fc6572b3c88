"""Numbers of all ranks brought together in constant memory, the same result on every rank."""

from collections.abc import Mapping

from mpi4py import MPI

_HALF = 40  # bits; sums of operations outgrow 64 bits on large machines


def exact_sum(comm: MPI.Comm, value: int) -> int:
    """The sum of integers of up to 80 bits, without overflow. Collective."""
    high, low = comm.allreduce(value >> _HALF), comm.allreduce(value & ((1 << _HALF) - 1))
    return int(high << _HALF) + int(low)


def sums(comm: MPI.Comm, values: Mapping[str, int]) -> dict[str, int]:
    """Exact sums by name; the names in the same order on every rank. Collective."""
    return {name: exact_sum(comm, value) for name, value in values.items()}


def largest(comm: MPI.Comm, values: Mapping[str, float]) -> dict[str, float]:
    """Maxima by name; the names in the same order on every rank. Collective."""
    return {name: comm.allreduce(value, MPI.MAX) for name, value in values.items()}
