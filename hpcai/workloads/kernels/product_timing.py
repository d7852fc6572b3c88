"""Measurement of one product by each provider: prepare, time the first call, check every element, time, check again.

Calls take turns with two sets of operands, whose results share their memory. On all ranks at once.
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
from hpcai.kernels.providers import Call, Prepared, Unavailable, backend
from hpcai.kernels.spec import DTYPES
from hpcai.kernels.spot_check import SpotCheck
from hpcai.preflight import block_timing
from hpcai.preflight.block_timing import Rotation
from hpcai.preflight.watched_calls import WatchedRotation, watched
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
    """A product to measure: identification of its rows, arguments of its kernel; `sets` draws two sets of operands.

    The same on every rank.
    """

    names: ProductNames
    spec: Any
    shape: Any
    direction: str
    sets: Callable[[], tuple[Any, Any]]
    providers: tuple[str, ...]


@dataclass
class _Timed:
    """A variant that is timed: its calls by set, seconds of the first call, residuals so far, and the set used last."""

    variant: Prepared
    calls: tuple[Call, ...]
    first: float
    spots: SpotCheck
    residual: float
    last: int = 0

    def checked(self, last: int) -> None:
        """Spot check of the set that was computed last."""
        self.last = last
        self.spots.check(last)

    @property
    def rotation(self) -> Rotation:
        return Rotation(self.calls, self.variant.poison_result, self.spots.poison, self.checked)


def measured(task: Task, measuring: MeasuringRanks) -> tuple[list[MeasuredKernel], list[MissingKernel]]:
    """A row for each provider available on all ranks, and reasons for the missing ones. Collective."""
    sets = task.sets()
    timed: dict[str, _Timed] = {}
    missing: list[MissingKernel] = []
    for provider in task.providers:
        found, why = _prepared(task, provider, sets[0], measuring)
        if why:
            names = {"kernel": task.names.kernel, "dtype": task.names.dtype}
            missing.append(convert({**names, "provider": provider, "why": why}, MissingKernel))
        else:
            timed[provider] = _checked(task, found, sets, measuring)
    rotations = {provider: watched(each.rotation) for provider, each in timed.items()}
    seconds = block_timing.seconds(rotations, measuring.comm, measuring.device)
    for each in timed.values():  # the last call of the last block, with the set that was drawn for it
        each.residual = max(each.residual, _residual(task, each.variant, sets[each.last], measuring))
    clocks = {provider: _clocks(seconds[provider], rotations[provider], measuring) for provider in timed}
    return [_row(task, provider, each, measuring, clocks[provider]) for provider, each in timed.items()], missing


def _checked(task: Task, variants: list[Prepared], sets: tuple[Any, Any], measuring: MeasuringRanks) -> _Timed:
    """The fastest variant, ready to be timed: its result of the first set is checked. Collective."""
    first = [_first(variant, measuring) for variant in variants]
    number = _fastest(variants, measuring)
    variant = variants[number]
    assert variant.bind is not None, "a provider whose products are timed binds them to other operands"
    calls = variant.call, variant.bind(sets[1])
    variant.call()
    residual = _residual(task, variant, sets[0], measuring)
    spots = SpotCheck(task.spec, task.shape, task.direction, task.names.dtype, sets, variant)
    return _Timed(variant, calls, first[number], spots, residual)


def _first(variant: Prepared, measuring: MeasuringRanks) -> float:
    """Seconds of the first call, which may plan or compile, on the slowest rank. Collective."""
    measuring.comm.Barrier()
    return float(measuring.largest(block_timing.stretch(Rotation((variant.call,)), 1, measuring.device)))


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


def _fastest(variants: list[Prepared], measuring: MeasuringRanks) -> int:
    """The variant with the least time on the slowest rank, in a short trial; the same on every rank. Collective."""
    if len(variants) == 1:
        return 0
    calls = {str(number): Rotation((variant.call,)) for number, variant in enumerate(variants)}
    taken = block_timing.seconds(calls, measuring.comm, measuring.device, TRIAL, rounds=1)
    return int(min(taken, key=lambda number: taken[number]))


def _residual(task: Task, variant: Prepared, data: Any, measuring: MeasuringRanks) -> float:
    """The largest residual of the last result over all ranks. Collective."""
    clock.synchronise(measuring.device)
    own = verify.residual(task.spec, task.shape, task.direction, task.names.dtype, data, variant, measuring.seed)
    return float(measuring.largest(min(own, LARGEST)))


def _clocks(seconds: float, rotation: WatchedRotation, measuring: MeasuringRanks) -> dict[str, float | None]:
    """Seconds of a call by both clocks; the second one times the calls of CPUs. Collective."""
    by_events = measuring.device.type == "cuda"
    second = None if by_events else float(measuring.largest(rotation.times.seconds))
    return {"seconds": seconds, "second_clock": second}


def _row(
    task: Task, provider: str, timed: _Timed, measuring: MeasuringRanks, clocks: dict[str, float | None]
) -> MeasuredKernel:
    measured = {
        "threads": measuring.threads,
        "provider": provider,
        "variant": timed.variant.variant,
        "operations": task.spec.operations_of(task.shape, task.direction),
        "nbytes": task.spec.nbytes(task.shape, task.direction, task.names.dtype),
        **clocks,
        "residual": timed.residual,
        "checked": verify.checked(task.spec, task.shape, task.direction),
        "first_seconds": timed.first,
        "spot_residual": measuring.largest(min(timed.spots.worst, LARGEST)),
        "spot_checks": measuring.least(timed.spots.count),
    }
    return convert({**task.names._asdict(), **measured}, MeasuredKernel)
