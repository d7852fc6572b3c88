"""Checks before a training: sums of the collectives, and the provider's products at the layer shapes of the network."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from mpi4py import MPI

from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.formulas.precision import PRECISIONS
from hpcai.formulas.score import LARGEST
from hpcai.inputfile import Case
from hpcai.kernels.residual import Residuals
from hpcai.kernels.spec import DIRECTIONS, FORWARD, FP32, INT8, Arithmetic
from hpcai.machine import memory
from hpcai.networks.graph import Graph
from hpcai.preflight.layer_products import Product, check, products
from hpcai.preflight.precision_probe import probe
from hpcai.train.parallel import wrong_sums

Ours = Callable[[Product], Collection[str]]  # directions of a product that our kernels compute


def checks_before(
    case: Case,
    seed: int,
    group: Group,
    device: torch.device,
    graph: Graph,
    phases: Phases,
    chosen: Mapping[Product, Collection[str]] | None = None,
) -> dict[str, Any]:
    """What is tried before the clock starts: collectives, provider and precision. Collective over all active ranks.

    `chosen` are the directions that are ours, where that was chosen product by product.
    """
    comm, precision = group.active, case["PRECISION"]
    found: dict[str, Any] = {"wrong_sums": comm.allreduce(wrong_sums(group, device, sum(graph.parameters.values())))}
    with phases.measure("residuals"):
        arithmetic = PRECISIONS[precision].arithmetic
        ours = _vendors if chosen is None else chosen.__getitem__
        if case.all_ours:
            ours = _all_ours
        found["residuals"] = worst_residuals(graph, case["BATCH"], comm, device, seed, arithmetic, ours)
    if precision != "fp32":  # which others are compared with
        memory.give_back()  # what the residuals needed
        with phases.measure("probe"):
            found["probe"] = probe(graph, precision, comm, device)
    memory.give_back()  # what the checks needed, before a step needs its own
    return found


def _vendors(product: Product) -> Collection[str]:
    return ()


def _all_ours(product: Product) -> Collection[str]:
    return DIRECTIONS


def worst_residuals(
    graph: Graph,
    batch: int,
    comm: MPI.Comm,
    device: torch.device,
    seed: int,
    arithmetic: Arithmetic = FP32,
    ours: Ours = _vendors,
) -> dict[str, dict[str, Any]]:
    """The worst of each residual over all shapes and directions, with where it was found; the same on every rank.

    Of products of bytes also the most elements of one product that are wrong.

    Products are computed in `arithmetic`, by our kernels in the directions that are `ours`; for tf32 the caller has
    switched it on (hpcai.train.precision). The shapes are dealt out to the ranks of `comm` in turn, so that each
    shape and each rank has at least one.
    """
    shapes = products(graph, batch)
    mine = shapes[comm.rank :: comm.size] or [shapes[comm.rank % len(shapes)]]
    found = [residuals for product in mine for residuals in check(product, device, seed, arithmetic, ours(product))]
    worst = {measure: _worst(measure, found, comm) for measure in ("scaled", "elementwise")}
    if arithmetic is INT8:
        worst["wrong"] = _worst("wrong", [item for item in found if item.direction == FORWARD], comm)
    return worst


def _worst(measure: str, found: list[Residuals], comm: MPI.Comm) -> dict[str, Any]:
    value, where = max((min(getattr(item, measure), LARGEST), _where(item)) for item in found)
    value, where = comm.allreduce((value, where), MPI.MAX)
    return {"value": value, "where": where}


def _where(item: Residuals) -> str:
    x, w = ("x".join(map(str, size)) for size in (item.shape.x, item.shape.w))
    return f"{item.kernel} {item.direction} {x} by {w}, {item.images} images checked"
