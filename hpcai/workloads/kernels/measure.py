"""Matrix products and convolutions at the shapes asked for, by our kernels and the vendor's, below their ceilings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from mpi4py import MPI

from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.estimate.kernels import Rank, automatic_sizes
from hpcai.inputfile import Case
from hpcai.kernels import gemm
from hpcai.kernels.layers import SPECS
from hpcai.kernels.providers import VENDOR, backend, providers
from hpcai.kernels.spec import INPUT_GRADIENT
from hpcai.kernels.verify import drawn
from hpcai.machine import caches, memory
from hpcai.opcount.products import PRODUCT, Product, asked, automatic, squares, types_of_squares
from hpcai.plan.planner import limit_of_rank
from hpcai.preflight import block_timing
from hpcai.training.groups import Measurement, Stopped
from hpcai.workloads.kernels.ceilings import ceilings, rate
from hpcai.workloads.kernels.product_timing import Task, Team, measured

NAMES = ("kernel", "direction", "shape", "of", "occurrences", "dtype")
TRIED_SIDE = 1024  # of the square that tells how fast a machine is whose peak nobody measures


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: Callable[[str, float], None], shutdown: Shutdown
) -> Measurement | Stopped | None:
    """Measure one case; all ranks measure the same products at the same time, each with its own threads. Collective.

    When `ending` says so, it stops before the next product and returns the rows there are. `tell` hears what is
    measured next, and the share of the products that are done.
    """
    with _same_threads(world) as threads:
        return _measure(case, Team(world.comm, device, threads, seed), world, tell, shutdown)


@contextmanager
def _same_threads(world: World) -> Iterator[int]:
    """As many threads of torch on each rank as the rank with fewest has. Collective."""
    own = torch.get_num_threads()
    fewest = world.comm.allreduce(own, MPI.MIN)
    torch.set_num_threads(fewest)
    try:
        yield fewest
    finally:
        torch.set_num_threads(own)


def _measure(
    case: Case, team: Team, world: World, tell: Callable[[str, float], None], shutdown: Shutdown
) -> Measurement | Stopped:
    table: Measurement = {"threads": team.threads, "ranks": world.size, "missing": [], "rows": []}
    for task, share in _tasks(case, team, facts(world, team), table):
        if shutdown.agreed(world.comm):
            return Stopped(table)
        tell(f"{task.names['kernel']} {task.names['direction']} {task.names['shape']} {task.names['dtype']}", share)
        memory.give_back()  # the largest blocks of a product would come to lie between holes of the one before
        rows, missing = measured(task, team)
        table["rows"] += rows
        table["missing"] += [each for each in missing if each not in table["missing"]]
    return table


def facts(world: World, team: Team) -> Rank:
    """What the plan depends on, of this rank, which has an equal part of its node, or a GPU."""
    free = limit_of_rank(team.device, world.node.size).nbytes
    return Rank(team.threads, free, world.node.size, caches.last_level(), team.device.type == "cuda")


def _tasks(case: Case, team: Team, rank: Rank, table: Measurement) -> Iterator[tuple[Task, float]]:
    """The ceilings first, then what the input asks for; each with the share of all that is done before it."""
    first = list(ceilings(team, rank))
    asked_for = asked(case.settings)
    yield from ((task, number / (len(first) + len(asked_for))) for number, task in enumerate(first))
    if automatic(case.settings):
        sizes = _sizes(team, rank, table)
        more = squares(sizes, types_of_squares(case.settings))
        asked_for += [product for product in more if product not in asked_for]
    operands = _Operands(team.seed)
    for number, product in enumerate(asked_for, len(first)):
        yield task_of(product, operands), number / (len(first) + len(asked_for))


class _Operands:
    """The operands drawn last, which the directions of a layer share."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._of: Any = None
        self._data: Any = None

    def __call__(self, shape: Any, dtype: str, wanted: tuple[str, ...]) -> Any:
        """Draw them, unless they are the same; the others are let go before."""
        if self._of != (shape, dtype, wanted):
            self._data = None
            self._of, self._data = (shape, dtype, wanted), drawn(shape, dtype, self._seed, wanted)
        return self._data


def _sizes(team: Team, rank: Rank, table: Measurement) -> list[int]:
    """Sides of the squares that suit all ranks: by the FMA peak or, where nobody measured it, a product by torch."""
    flops = rate(table["rows"], "fp64") or _tried(team)
    found: list[int] = team.least(automatic_sizes(rank, flops))  # shorter lists are less
    return found


def _tried(team: Team) -> float:
    """FLOP/s of a square product in fp64 by the vendor. Collective."""
    shape = gemm.Shape(TRIED_SIDE, TRIED_SIDE, TRIED_SIDE)
    data = drawn(shape, "fp64", team.seed)
    (way,) = backend(gemm.SPEC, VENDOR, team.device.type).prepare(shape, INPUT_GRADIENT, data, str(team.device), 1)
    return gemm.operations(shape) / block_timing.seconds({VENDOR: way.call}, team.comm, team.device)[VENDOR]


def task_of(product: Product, operands: Callable[[Any, str, tuple[str, ...]], Any]) -> Task:
    """How a product is measured."""
    names = {name: getattr(product, name) for name in NAMES}
    wanted = ("w", "g") if product.direction == PRODUCT else ("x", "w", "g")
    data = partial(operands, product.layer, product.dtype, wanted)
    spec = SPECS[product.kernel]
    return Task(names, spec, product.layer, product.computed, data, providers(spec))
