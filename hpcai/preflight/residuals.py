"""Preflight checks: all-reduce exactness, and residuals of the provider's products at the network's layer shapes."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import torch
from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.score import LARGEST
from hpcai.inputfile import Case
from hpcai.inputfile.split import Cut
from hpcai.kernels.arithmetic import FP32, INT8, Arithmetic
from hpcai.kernels.residual import Residuals as ProductResiduals
from hpcai.kernels.spec import DIRECTIONS, FORWARD
from hpcai.machine import memory
from hpcai.networks.graph import Graph
from hpcai.opcount.stages import parts_of
from hpcai.preflight import processor_cycles
from hpcai.preflight.layer_products import Product, check, products_of_parts
from hpcai.preflight.precision_probe import probe
from hpcai.record.preflight import PrecisionProbe, Residuals, Worst, WrongElements
from hpcai.record.processor import Processor
from hpcai.train.all_reduce_choice import choose
from hpcai.train.communication import Communication
from hpcai.train.data_parallel import wrong_sums

Custom = Callable[[Product], Collection[str]]  # the custom directions of a product


class Checked(NamedTuple):
    """Results of the preflight checks, the same on every active rank."""

    wrong_sums: int
    residuals: Residuals
    probe: PrecisionProbe | None
    processor: Processor


def checks_before(
    case: Case,
    group: Group,
    device: torch.device,
    graph: Graph,
    phases: Phases,
    communication: Communication,
    chosen: Mapping[Product, Collection[str]] | None = None,
) -> Checked:
    """Choose the path of the all-reduce, check collectives and residuals, and probe the precision, before the clock.

    The cycles of the processors are counted as well, after they were busy.

    Collective over all active ranks. `communication` averages the gradients of the training. `chosen` are the custom
    directions where they were chosen product by product, of the first shard.
    """
    comm, precision, executed = group.active, case.precision, parts_of(graph, case.cut, 0)
    gradients = sum(executed[group.place.stage].graph.parameters.values())
    choose(case, communication, gradients, device, comm)
    wrong = comm.allreduce(wrong_sums(group, device, communication, gradients))
    with phases.measure("residuals"):
        custom = _no_directions if chosen is None else chosen.__getitem__
        if case.all_custom:
            custom = _all_directions
        arithmetic = PRECISIONS[precision].arithmetic
        found = worst_residuals(graph, case.cut, comm, device, case.seed, arithmetic, custom)
        processor = processor_cycles.measured(comm, device)
    memory.release_unused()  # memory of the residuals' products
    return Checked(wrong, found, _probed(executed[0].graph, precision, comm, device, phases), processor)


def _probed(
    graph: Graph, precision: str, comm: MPI.Comm, device: torch.device, phases: Phases
) -> PrecisionProbe | None:
    """The precision probe; None for fp32, with which others are compared."""
    if precision == "fp32":
        return None
    with phases.measure("probe"):
        found = probe(graph, precision, comm, device)
    memory.release_unused()
    return found


def _no_directions(product: Product) -> Collection[str]:
    return ()


def _all_directions(product: Product) -> Collection[str]:
    return DIRECTIONS


def worst_residuals(
    graph: Graph,
    cut: Cut,
    comm: MPI.Comm,
    device: torch.device,
    seed: int,
    arithmetic: Arithmetic = FP32,
    custom: Custom = _no_directions,
) -> Residuals:
    """The largest residual of each kind over all shapes and directions, and its location; the same on every rank.

    For int8 products also the largest number of wrong elements. Products use `arithmetic`, custom kernels in the
    `custom` directions; for tf32 the caller has switched it on (hpcai.train.precision). The shapes are distributed over
    the ranks of `comm` in turn, so that each shape is checked and each rank checks at least one. They are those of all
    parts of the network; `custom` knows those of the first shards.
    """
    shapes = [*products_of_parts(graph, cut).items()]
    own = shapes[comm.rank :: comm.size] or [shapes[comm.rank % len(shapes)]]
    found = [item for shape, first in own for item in check(shape, device, seed, arithmetic, custom(first))]
    scaled, elementwise = (_worst(measure, found, comm) for measure in ("scaled", "elementwise"))
    wrong = None
    if arithmetic is INT8:
        count, where = _worst("wrong", [item for item in found if item.direction == FORWARD], comm)
        wrong = WrongElements(value=int(count), where=where)
    return Residuals(
        scaled=Worst(value=scaled[0], where=scaled[1]),
        elementwise=Worst(value=elementwise[0], where=elementwise[1]),
        wrong=wrong,
    )


def _worst(measure: str, found: list[ProductResiduals], comm: MPI.Comm) -> tuple[float, str]:
    own = max((min(getattr(item, measure), LARGEST), _where(item)) for item in found)
    worst: tuple[float, str] = comm.allreduce(own, MPI.MAX)
    return worst


def _where(item: ProductResiduals) -> str:
    x, w = ("x".join(map(str, size)) for size in (item.shape.x, item.shape.w))
    return f"{item.kernel} {item.direction} {x} by {w}, {item.images} images checked"
