"""Measurement of one product by each provider: prepare, check every element, time, check again.

On all ranks at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from mpi4py import MPI
from msgspec import convert

from hpcai import clock
from hpcai.formulas.score import LARGEST
from hpcai.kernels import verify
from hpcai.kernels.providers import Prepared, Unavailable, backend
from hpcai.kernels.spec import DTYPES
from hpcai.preflight import block_timing
from hpcai.workloads.kernels.record import MeasuredKernel, MissingKernel

TRIAL = 0.01  # seconds of a trial of a variant


@dataclass(frozen=True)
class MeasuringRanks:
    """The ranks that measure at the same time: this one's device and threads, and the seed of the data."""

    comm: MPI.Comm
    device: torch.device
    threads: int
    seed: int

    def least(self, value: Any) -> Any:
        """Minimum over all ranks. Collective."""
        return self.comm.allreduce(value, MPI.MIN)

    def largest(self, value: Any) -> Any:
        """Maximum over all ranks. Collective."""
        return self.comm.allreduce(value, MPI.MAX)


class ProductNames(NamedTuple):
    """Identification of a product's rows; `direction` and `shape` as printed."""

    kernel: str
    direction: str
    shape: str
    of: str
    occurrences: int
    dtype: str


@dataclass(frozen=True)
class Task:
    """A product to measure: identification of its rows, arguments of its kernel; `data` draws the operands.

    The same on every rank.
    """

    names: ProductNames
    spec: Any
    shape: Any
    direction: str
    data: Callable[[], Any]
    providers: tuple[str, ...]


def measured(task: Task, measuring: MeasuringRanks) -> tuple[list[MeasuredKernel], list[MissingKernel]]:
    """A row for each provider available on all ranks, and reasons for the missing ones. Collective."""
    data = task.data()
    variants: dict[str, Prepared] = {}
    missing: list[MissingKernel] = []
    residuals: dict[str, float] = {}
    for provider in task.providers:
        found, why = _prepared(task, provider, data, measuring)
        if why:
            names = {"kernel": task.names.kernel, "dtype": task.names.dtype}
            missing.append(convert({**names, "provider": provider, "why": why}, MissingKernel))
        else:
            variant = variants[provider] = _fastest(found, measuring)
            variant.call()
            residuals[provider] = _residual(task, variant, data, measuring)
            variant.poison_result()
    seconds = block_timing.seconds(
        {provider: variant.call for provider, variant in variants.items()}, measuring.comm, measuring.device
    )
    for provider, variant in variants.items():  # a kernel might compute correctly only while it is checked
        residuals[provider] = max(residuals[provider], _residual(task, variant, data, measuring))
    rows = [
        _row(task, provider, variant, measuring, seconds[provider], residuals[provider])
        for provider, variant in variants.items()
    ]
    return rows, missing


def _prepared(task: Task, provider: str, data: Any, measuring: MeasuringRanks) -> tuple[list[Prepared], str]:
    """The variants of a provider, and the reason if it is unavailable on some rank. Collective.

    The same on every rank.
    """
    found: list[Prepared] = []
    why = ""
    try:
        found = _variants(task, provider, data, measuring)
    except Unavailable as reason:
        why = " ".join(str(reason).split()) or type(reason).__name__
    return found, measuring.largest(why)


def _variants(task: Task, provider: str, data: Any, measuring: MeasuringRanks) -> list[Prepared]:
    """The variants of a provider on this rank. Unavailable as the provider says, and on CPUs for GPU-only types.

    Those would be computed in fp32 there, and pass for what they are not.
    """
    dtype = task.names.dtype
    if DTYPES[dtype].on_gpus and measuring.device.type == "cpu":
        raise Unavailable(f"{dtype} is measured on GPUs; this is a CPU")
    module = backend(task.spec, provider, measuring.device.type)
    return module.prepare(task.shape, task.direction, data, str(measuring.device), measuring.threads)


def _fastest(variants: list[Prepared], measuring: MeasuringRanks) -> Prepared:
    """The variant with the least time on the slowest rank, in a short trial; the same on every rank. Collective."""
    if len(variants) == 1:
        return variants[0]
    calls = {str(number): variant.call for number, variant in enumerate(variants)}
    taken = block_timing.seconds(calls, measuring.comm, measuring.device, TRIAL, rounds=1)
    return variants[int(min(taken, key=lambda number: taken[number]))]


def _residual(task: Task, variant: Prepared, data: Any, measuring: MeasuringRanks) -> float:
    """The largest residual of the last result over all ranks. Collective."""
    clock.synchronise(measuring.device)
    own = verify.residual(task.spec, task.shape, task.direction, task.names.dtype, data, variant, measuring.seed)
    return float(measuring.largest(min(own, LARGEST)))


def _row(
    task: Task, provider: str, variant: Prepared, measuring: MeasuringRanks, seconds: float, residual: float
) -> MeasuredKernel:
    measured = {
        "threads": measuring.threads,
        "provider": provider,
        "variant": variant.variant,
        "operations": task.spec.operations(task.shape),
        "nbytes": task.spec.nbytes(task.shape, task.direction, task.names.dtype),
        "seconds": seconds,
        "residual": residual,
        "checked": verify.checked(task.spec, task.shape),
    }
    return convert({**task.names._asdict(), **measured}, MeasuredKernel)
