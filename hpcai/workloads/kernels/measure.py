"""Measures matrix products and convolutions of the input by each provider, and ceilings of a rank."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from mpi4py import MPI

from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.estimate import Rank
from hpcai.inputfile import Case
from hpcai.kernels import gemm
from hpcai.kernels.layers import SPECS
from hpcai.kernels.providers import VENDOR, backend, providers
from hpcai.kernels.spec import INPUT_GRADIENT
from hpcai.kernels.verify import drawn, second_set
from hpcai.machine import caches, memory
from hpcai.opcount.products import PRODUCT, Product, automatic, requested, squares, types_of_squares
from hpcai.plan.machine import limit_of_rank
from hpcai.preflight import block_timing, processor_cycles
from hpcai.preflight.processor_cycles import faster_of
from hpcai.results.measured import Stopped
from hpcai.workloads.kernels.ceiling_tasks import ceilings, peak
from hpcai.workloads.kernels.plan import automatic_sizes
from hpcai.workloads.kernels.product_timing import MeasuringRanks, ProductNames, Task, measured
from hpcai.workloads.kernels.record import KernelsRaw, MeasuredKernel, MissingKernel

Progress = Callable[[str, float], None]  # called with the next measurement and the share done

TRIED_SIDE = 1024  # side of the square product that measures the speed of a machine without a measured peak


def run(
    case: Case, world: World, device: torch.device, progress: Progress, shutdown: Shutdown, folder: str = ""
) -> KernelsRaw | Stopped | None:
    """Measure one case; all ranks measure the same products at the same time, each with its own threads. Collective.

    On a shutdown it stops before the next product and returns the rows so far.
    """
    with _same_threads(world) as threads:
        return _measure(case, MeasuringRanks(world.comm, device, threads, case.seed), world, progress, shutdown)


@contextmanager
def _same_threads(world: World) -> Iterator[int]:
    """Set torch's threads on each rank to the smallest number of any rank. Collective."""
    own = torch.get_num_threads()
    fewest = world.comm.allreduce(own, MPI.MIN)
    torch.set_num_threads(fewest)
    try:
        yield fewest
    finally:
        torch.set_num_threads(own)


def _measure(
    case: Case, measuring: MeasuringRanks, world: World, progress: Progress, shutdown: Shutdown
) -> KernelsRaw | Stopped:
    rows: list[MeasuredKernel] = []
    missing: list[MissingKernel] = []
    stopped, processor = False, processor_cycles.measured(measuring.comm, measuring.device)
    for task, share in _tasks(case, measuring, facts(world, measuring), rows):
        if stopped := shutdown.agreed(world.comm):
            break
        names = task.names
        progress(f"{names.kernel} {names.direction} {names.shape} {names.dtype}", share)
        memory.release_unused()  # memory freed by a product would be too fragmented for the next
        found, lacking = measured(task, measuring)
        rows += found
        missing += [each for each in lacking if each not in missing]
    raw = KernelsRaw(
        threads=measuring.threads,
        ranks=world.size,
        missing=tuple(missing),
        rows=tuple(rows),
        processor=faster_of(processor, processor_cycles.measured(measuring.comm, measuring.device)),
    )
    return Stopped(raw) if stopped else raw


def facts(world: World, measuring: MeasuringRanks) -> Rank:
    """Resources of this rank for the plan: an equal part of its node, or a GPU."""
    free = limit_of_rank(measuring.device, world.node.size).nbytes
    return Rank(measuring.threads, free, world.node.size, caches.last_level(), measuring.device.type == "cuda")


def _tasks(
    case: Case, measuring: MeasuringRanks, rank: Rank, rows: Sequence[MeasuredKernel]
) -> Iterator[tuple[Task, float]]:
    """Measurements in order: ceilings, then the products of the input; each with the share done before it.

    `rows` grows: by the ceilings in it the sizes of `auto` are chosen.
    """
    first = list(ceilings(measuring, rank))
    asked_for = requested(case)
    yield from ((task, number / (len(first) + len(asked_for))) for number, task in enumerate(first))
    if automatic(case):
        sizes = _sizes(measuring, rank, rows)
        more = squares(sizes, types_of_squares(case))
        asked_for += [product for product in more if product not in asked_for]
    operands = Operands(measuring.seed)
    for number, product in enumerate(asked_for, len(first)):
        yield task_of(product, operands), number / (len(first) + len(asked_for))


class Operands:
    """The operands drawn last, shared by the directions of a layer."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._of: Any = None
        self._data: Any = None

    def __call__(self, shape: Any, dtype: str, wanted: tuple[str, ...]) -> Any:
        """Draw operands, unless they are the same as before; earlier ones are released first."""
        if self._of != (shape, dtype, wanted):
            self._data = None
            self._of, self._data = (shape, dtype, wanted), drawn(shape, dtype, self.seed, wanted)
        return self._data


def _sizes(measuring: MeasuringRanks, rank: Rank, rows: Sequence[MeasuredKernel]) -> list[int]:
    """Sides of automatic squares that fit all ranks: by the FMA peak or, without one, a vendor product."""
    flops = peak(rows, "fp64") or _vendor_rate(measuring)
    found: list[int] = measuring.least(automatic_sizes(rank, flops))  # shorter lists compare as less
    return found


def _vendor_rate(measuring: MeasuringRanks) -> float:
    """FLOP/s of a square product in fp64 by the vendor. Collective."""
    shape = gemm.Shape(TRIED_SIDE, TRIED_SIDE, TRIED_SIDE)
    data = drawn(shape, "fp64", measuring.seed)
    (way,) = backend(gemm.SPEC, VENDOR, measuring.device.type).prepare(
        shape, INPUT_GRADIENT, data, str(measuring.device), 1
    )
    calls = {VENDOR: block_timing.Rotation((way.call,))}
    return gemm.operations(shape) / block_timing.seconds(calls, measuring.comm, measuring.device)[VENDOR]


def task_of(product: Product, operands: Operands) -> Task:
    """The measurement of a product."""
    names = ProductNames(*(getattr(product, name) for name in ProductNames._fields))
    wanted = ("w", "g") if product.direction == PRODUCT else ("x", "w", "g")
    spec, layer, direction = SPECS[product.kernel], product.layer, product.computed

    def sets() -> tuple[Any, Any]:
        data = operands(layer, product.dtype, wanted)
        return data, second_set(data, layer, direction, product.dtype, operands.seed)

    return Task(names, spec, layer, direction, sets, providers(spec))
