"""Measures the cycles per second of the ranks' processors, by which the limits of their rates are known."""

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.formulas.processor_units import NVIDIA
from hpcai.kernels.cycles import NAME
from hpcai.kernels.providers import CUSTOM, Unavailable, module_of
from hpcai.machine import device as devices
from hpcai.machine.affinity import own_cpus
from hpcai.machine.nvml import Gpus
from hpcai.machine.processor_identity import Identity, identity
from hpcai.record.processor import FASTEST, Processor

UNKNOWN = Identity("unknown", 0, 0)


def measured(comm: MPI.Comm, device: torch.device) -> Processor:
    """The processor of the ranks, with the most threads and the most cycles per second of any.

    UNKNOWN if ranks have different ones, or that of one is not known. Collective, the same on every rank; 10 to 100 ms.
    """
    found, units, cycles = _gpu(device) if device.type == "cuda" else _cpu()
    known = found if units and cycles is not None else UNKNOWN
    least, most = (comm.allreduce(known, op) for op in (MPI.MIN, MPI.MAX))
    units, cycles = comm.allreduce(units, MPI.MAX), comm.allreduce(cycles or 0.0, MPI.MAX)
    same = least if least == most else UNKNOWN
    return Processor(**same._asdict(), units=max(units, 1), cycles=min(cycles, FASTEST))


def faster_of(one: Processor, other: Processor) -> Processor:
    """Of two measurements of the same ranks that with more cycles per second."""
    return one if one.cycles > other.cycles else other


def _cpu() -> tuple[Identity, int, float | None]:
    """Identity, threads, and cycles per second; None where nothing can be compiled."""
    threads = min(torch.get_num_threads(), len(own_cpus()))
    try:
        cycles = module_of(NAME, CUSTOM, "cpu").cycles_per_second(clock.now)
    except Unavailable:
        cycles = None
    return identity() or UNKNOWN, threads, cycles


def _gpu(device: torch.device) -> tuple[Identity, int, float | None]:
    """Compute capability, multiprocessors, and the largest clock; None where NVML does not report it."""
    major, minor, processors = devices.capability(device)
    return Identity(NVIDIA, major, minor), processors, Gpus([devices.identity(device)]).highest_clock()
