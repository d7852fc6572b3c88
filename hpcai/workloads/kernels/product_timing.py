"""One product of `[kernels]`: prepared by each provider, checked whole, timed, checked again; on all ranks at once."""

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

TRIAL = 0.01  # seconds of a block in which a way is tried


@dataclass(frozen=True)
class Team:
    """The ranks that measure together, all alike: this one's device and threads, and the seed of the data."""

    comm: MPI.Comm
    device: torch.device
    threads: int
    seed: int

    def least(self, value: Any) -> Any:
        """The least value of all ranks. Collective."""
        return self.comm.allreduce(value, MPI.MIN)

    def largest(self, value: Any) -> Any:
        """The largest value of all ranks. Collective."""
        return self.comm.allreduce(value, MPI.MAX)


class ProductNames(NamedTuple):
    """What names the rows of one product; `direction` and `shape` as they are printed."""

    kernel: str
    direction: str
    shape: str
    of: str
    occurrences: int
    dtype: str


@dataclass(frozen=True)
class Task:
    """A product to be measured: the names of its rows, then what its kernel needs; `data` draws the operands.

    The same on every rank.
    """

    names: ProductNames
    spec: Any
    shape: Any
    direction: str
    data: Callable[[], Any]
    providers: tuple[str, ...]


def measured(task: Task, team: Team) -> tuple[list[MeasuredKernel], list[MissingKernel]]:
    """A row for each provider that is available on all ranks, and why the others have none. Collective."""
    data = task.data()
    ways: dict[str, Prepared] = {}
    missing: list[MissingKernel] = []
    residuals: dict[str, float] = {}
    for provider in task.providers:
        found, why = _prepared(task, provider, data, team)
        if why:
            names = {"kernel": task.names.kernel, "dtype": task.names.dtype}
            missing.append(convert({**names, "provider": provider, "why": why}, MissingKernel))
        else:
            way = ways[provider] = _fastest(found, team)
            way.call()
            residuals[provider] = _residual(task, way, data, team)
            way.spoil()
    seconds = block_timing.seconds({provider: way.call for provider, way in ways.items()}, team.comm, team.device)
    for provider, way in ways.items():  # a kernel might have computed only as long as it was watched
        residuals[provider] = max(residuals[provider], _residual(task, way, data, team))
    rows = [_row(task, provider, way, team, seconds[provider], residuals[provider]) for provider, way in ways.items()]
    return rows, missing


def _prepared(task: Task, provider: str, data: Any, team: Team) -> tuple[list[Prepared], str]:
    """The ways that a provider has, and why it has none on some rank. Collective; the same reason on every rank."""
    found: list[Prepared] = []
    why = ""
    try:
        found = _ways(task, provider, data, team)
    except Unavailable as reason:
        why = " ".join(str(reason).split()) or type(reason).__name__
    return found, team.largest(why)


def _ways(task: Task, provider: str, data: Any, team: Team) -> list[Prepared]:
    """The ways of a provider on this rank. Unavailable as it says, and on a CPU for types that only GPUs multiply.

    Those would be computed in fp32 there, and pass for what they are not.
    """
    dtype = task.names.dtype
    if DTYPES[dtype].on_gpus and team.device.type == "cpu":
        raise Unavailable(f"{dtype} is measured on GPUs; this is a CPU")
    module = backend(task.spec, provider, team.device.type)
    return module.prepare(task.shape, task.direction, data, str(team.device), team.threads)


def _fastest(ways: list[Prepared], team: Team) -> Prepared:
    """The way that takes the slowest rank least time, in a short trial; the same on every rank. Collective."""
    if len(ways) == 1:
        return ways[0]
    calls = {str(number): way.call for number, way in enumerate(ways)}
    taken = block_timing.seconds(calls, team.comm, team.device, TRIAL, rounds=1)
    return ways[int(min(taken, key=lambda number: taken[number]))]


def _residual(task: Task, way: Prepared, data: Any, team: Team) -> float:
    """The worst of all ranks, of the result that was computed last. Collective."""
    clock.synchronise(team.device)
    own = verify.residual(task.spec, task.shape, task.direction, task.names.dtype, data, way, team.seed)
    return float(team.largest(min(own, LARGEST)))


def _row(task: Task, provider: str, way: Prepared, team: Team, seconds: float, residual: float) -> MeasuredKernel:
    measured = {
        "threads": team.threads,
        "provider": provider,
        "variant": way.variant,
        "operations": task.spec.operations(task.shape),
        "nbytes": task.spec.nbytes(task.shape, task.direction, task.names.dtype),
        "seconds": seconds,
        "residual": residual,
        "checked": verify.checked(task.spec, task.shape),
    }
    return convert({**task.names._asdict(), **measured}, MeasuredKernel)
