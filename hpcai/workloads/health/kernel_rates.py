"""Rates of a rank's kernels, while all ranks of all nodes compute the same."""

from dataclasses import dataclass
from time import sleep
from typing import Any

import torch
from mpi4py import MPI

from hpcai import clock
from hpcai.estimate import Rank
from hpcai.inputfile import Case
from hpcai.kernels import gemm, triad
from hpcai.kernels.providers import VENDOR, Unavailable, backend
from hpcai.kernels.spec import DTYPES, INPUT_GRADIENT
from hpcai.kernels.verify import drawn, residual
from hpcai.opcount.ceilings import CEILING
from hpcai.preflight.block_timing import Rotation, block
from hpcai.workloads.health import checks, plan
from hpcai.workloads.health.record import Unit
from hpcai.workloads.kernels.ceiling_tasks import vectors
from hpcai.workloads.kernels.plan import triad_length

LARGEST_RESIDUAL = 1.0


@dataclass(frozen=True)
class KernelRate:
    """The rate of a kernel by the vendor: operations or bytes of a call per second."""

    comm: MPI.Comm
    device: torch.device
    name: str
    unit: Unit
    spec: Any
    shape: Any
    direction: str
    dtype: str

    def unavailable(self) -> str:
        """Why some rank cannot compute it; empty if all can. Collective, the same on every rank."""
        why = ""
        try:
            if DTYPES[self.dtype].on_gpus and self.device.type == "cpu":
                raise Unavailable(f"{self.dtype} is measured on GPUs; this is a CPU")
            backend(self.spec, VENDOR, self.device.type)
        except Unavailable as reason:
            why = str(reason)
        return str(self.comm.allreduce(why, MPI.MAX))

    def measured(self) -> float:
        """Of this rank, the fastest of a few blocks; 0 if the last result is wrong. Collective."""
        data = self._data()
        module = backend(self.spec, VENDOR, self.device.type)
        (way, *_) = module.prepare(self.shape, self.direction, data, str(self.device), torch.get_num_threads())
        rotation = Rotation((way.call,), poison=way.poison_result)
        seconds = min(self._block(rotation) for _ in range(plan.BLOCKS))
        clock.synchronise(self.device)
        wrong = residual(self.spec, self.shape, self.direction, self.dtype, data, way) > LARGEST_RESIDUAL
        return 0.0 if wrong else self._work / seconds

    def _block(self, rotation: Rotation) -> float:
        sleep(plan.PAUSE)
        self.comm.Barrier()
        return block(rotation, self.device, plan.LEAST)

    def _data(self) -> Any:
        if self.spec is triad.SPEC:
            return vectors(self.shape.length)
        return drawn(self.shape, self.dtype, 1, ("w", "g"))

    @property
    def _work(self) -> int:
        """Operations of a call, of the triad bytes."""
        moves = self.spec is triad.SPEC
        return int(triad.nbytes(self.shape) if moves else self.spec.operations(self.shape))


def kernel_rates(case: Case, comm: MPI.Comm, device: torch.device, rank: Rank) -> list[KernelRate]:
    """Matrix products of each type, and the triad. Collective; the same on every rank."""
    side = plan.side_of(case, rank)
    length = comm.allreduce(triad_length(rank), MPI.MIN)
    products = [
        KernelRate(
            comm, device, checks.gemm(dtype), "FLOP/s", gemm.SPEC, gemm.Shape(side, side, side), INPUT_GRADIENT, dtype
        )
        for dtype in case["TYPES"]
    ]
    memory = KernelRate(comm, device, checks.TRIAD, "B/s", triad.SPEC, triad.Shape(length), CEILING, "fp64")
    return [*products, memory]
