"""Checks the provider that trains: its products at the layer shapes of the network, against float64."""

from typing import Any

import torch
from mpi4py import MPI

from hpcai.kernels.residual import Residuals
from hpcai.kernels.spec import FP32, Arithmetic
from hpcai.networks.graph import Graph
from hpcai.workloads.products import check, products

LARGEST = 9999999.0  # printed for a residual that is infinite or does not fit the column


def worst_residuals(
    graph: Graph, batch: int, comm: MPI.Comm, device: torch.device, seed: int, arithmetic: Arithmetic = FP32
) -> dict[str, dict[str, Any]]:
    """The worst of each residual over all shapes and directions, with where it was found; the same on every rank.

    Products are computed in `arithmetic`; for tf32 the caller has switched it on (hpcai.train.precision). The shapes
    are dealt out to the ranks of `comm` in turn, so that each shape and each rank has at least one.
    """
    shapes = products(graph, batch)
    mine = shapes[comm.rank :: comm.size] or [shapes[comm.rank % len(shapes)]]
    found = [residuals for product in mine for residuals in check(product, device, seed, arithmetic)]
    return {measure: _worst(measure, found, comm) for measure in ("scaled", "elementwise")}


def _worst(measure: str, found: list[Residuals], comm: MPI.Comm) -> dict[str, Any]:
    value, where = max((min(getattr(item, measure), LARGEST), _where(item)) for item in found)
    value, where = comm.allreduce((value, where), MPI.MAX)
    return {"value": value, "where": where}


def _where(item: Residuals) -> str:
    x, w = ("x".join(map(str, size)) for size in (item.shape.x, item.shape.w))
    return f"{item.kernel} {item.direction} {x} by {w}, {item.images} images checked"
