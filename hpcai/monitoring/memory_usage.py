"""Memory of the ranks: the limit for each test, and the memory that each test used; constant size."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from mpi4py import MPI

from hpcai import estimate
from hpcai.comm.world import World, agreed
from hpcai.errors import HpcaiError
from hpcai.inputfile import Case
from hpcai.machine import device as devices
from hpcai.machine import memory
from hpcai.machine.memory import Limit
from hpcai.plan.machine import limit_of_rank
from hpcai.plan.planner import rank_of, refuse, rows
from hpcai.plan.requirements import requirements
from hpcai.plan.training_requirements import facts
from hpcai.preflight.case_checks import opened
from hpcai.preflight.library_loading import load
from hpcai.record.machine import DataFacts, Memory


@contextmanager
def explained_shortage(case: Case) -> Iterator[None]:
    """Context manager that turns an out-of-memory error into an HpcaiError naming the test and a remedy."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not memory.is_out_of_memory(error):
            raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        cure = requirements(case.workload).cure(case)
        raise HpcaiError(f"test {case.index} ran out of memory: {reason}; {cure}") from error


class Usage:
    """Memory of the ranks since the libraries were loaded. All methods are collective over the world."""

    def __init__(self, cases: Sequence[Case], world: World, device: torch.device) -> None:
        """Loads the libraries: `cases` are not yet checked, and their data not read."""
        self._cases, self._world, self._device = cases, world, device
        self._baseline = load(cases, device, node=(world.node.rank, world.node.size))
        self._whole_run = False

    def refuse(self) -> None:
        """Refuse the run if a test needs more memory than the rank with the least may use."""
        limit, on_gpu = self._limit(), self._device.type == "cuda"
        baseline = 0 if on_gpu else int(self._world.comm.allreduce(self._baseline, MPI.MAX))
        self._rank = rank_of(
            self._device, max(0, limit.nbytes - baseline), self._world.node.size, torch.get_num_threads()
        )
        agreed(self._world.comm, lambda: refuse(self._cases, self._device, baseline, limit, self._rank))

    def _limit(self) -> Limit:
        """Bytes that the rank with the least memory may use, including those in use."""
        node = self._world.node
        node.Barrier()  # all have loaded what they need
        own = limit_of_rank(self._device, node.size)
        nbytes = own.nbytes + (memory.resident() if self._device.type == "cpu" else 0)
        node.Barrier()
        least, _, source, host = self._world.comm.allreduce(
            (nbytes, self._world.rank, own.source, self._world.host), MPI.MIN
        )
        return Limit(least, f"{source}, on {host}")

    def begin(self) -> None:
        """A test begins: reset the peak, if the kernel allows it."""
        self._whole_run = not memory.reset_peak()
        devices.begin_peak(self._device)

    def measured(self, case: Case) -> Memory | None:
        """Memory of the rank that used most in the test that ends; nothing on ranks other than 0. Collective."""
        comm = self._world.comm
        peak, baseline = comm.allreduce((memory.peak(), self._baseline), MPI.MAX)
        device_peak = comm.allreduce(devices.peak_memory(self._device), MPI.MAX)
        whole_run = bool(comm.allreduce(int(self._whole_run), MPI.MAX))
        found = None
        if self._world.rank == 0:  # others may have read a copy, and the files themselves may lie out of their reach
            accelerated = self._device.type == "cuda"
            planned = estimate.total(rows(case, self._device, self._rank))
            found = Memory(
                peak_bytes=peak,
                baseline_bytes=baseline,
                device_peak_bytes=device_peak,
                planned_bytes=planned + (0 if accelerated else baseline),
                whole_run=whole_run,
                accelerated=accelerated,
                data=self._facts(case) if case.trains else None,
            )
        if not case.trains:  # memory that libraries keep for a table's many shapes joins the baseline
            memory.release_unused()
            self._baseline = max(self._baseline, memory.resident())
        return found

    def _facts(self, case: Case) -> DataFacts:
        found = facts(case, opened(case), self._device)
        return DataFacts(
            data_bytes=found.data_bytes,
            samples=found.samples,
            image_bytes=found.image_bytes,
            converted=found.converted,
        )
