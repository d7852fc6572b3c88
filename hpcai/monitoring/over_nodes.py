"""Samples of all nodes of a grid brought together: mean, least and most at common times, and each node's own."""

import json
from collections.abc import Sequence
from math import inf, isfinite, nan

import numpy as np
from mpi4py import MPI
from msgspec import convert

from hpcai.comm import communicators
from hpcai.comm.world import World
from hpcai.machine.node_sensors import NAMES, Values
from hpcai.machine.resampling import Row, common_times, resampled
from hpcai.machine.telemetry import KEPT, rounded
from hpcai.record.machine import MOST_NODES, NodeSeries, OverNodes

Rows = Sequence[Row]


def over_nodes(comm: MPI.Comm, rows: Rows | None, nodes: int) -> OverNodes | None:
    """Mean, least and most of so many nodes over time, the same on every rank; None of one node. Of constant size.

    rows: the samples of this rank's node; None on ranks that do not sample. Collective. The intervals are as many as
    the node with the fewest samples has, and end with the node that ends first.
    """
    if nodes == 1:
        return None
    last = inf if rows is None else rows[-1][0] if rows else 0.0
    seconds, points = comm.allreduce(last, MPI.MIN), comm.allreduce(KEPT if rows is None else len(rows), MPI.MIN)
    ends = common_times(seconds, points)
    own = None if rows is None else resampled(rows, ends)
    sums = _together(comm, own, points, MPI.SUM, 0.0, nan)
    return OverNodes(
        seconds=tuple(ends),
        mean=_values(sums / nodes),
        least=_values(_together(comm, own, points, MPI.MIN, inf, -inf)),
        most=_values(_together(comm, own, points, MPI.MAX, -inf, inf)),
    )


def _together(
    comm: MPI.Comm, own: Sequence[Values] | None, points: int, operator: MPI.Op, nothing: float, unknown: float
) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """An array (points, quantities). nothing: stands for ranks that do not sample; unknown: for a missing value."""
    found = np.full((points, len(NAMES)), nothing)
    if own is not None and points:
        found[:] = [[unknown if value is None else value for value in values] for values in own]
    comm.Allreduce(MPI.IN_PLACE, found, operator)
    return found


def _values(array: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> tuple[Values, ...]:
    """The quantities by time; None where a node does not know one."""
    return tuple(rounded(tuple(value if isfinite(value) else None for value in row)) for row in array.tolist())


def further(world: World, rows: Rows | None, nodes: int) -> tuple[NodeSeries, ...]:
    """Samples of all nodes but the first, on rank 0; empty on others and of more than MOST_NODES nodes. Collective."""
    if not 1 < nodes <= MOST_NODES:
        return ()
    samplers = communicators.split(world.comm, MPI.UNDEFINED if rows is None else 0, world.rank)
    if samplers == MPI.COMM_NULL:
        return ()
    texts = samplers.gather(json.dumps({"host": world.host, "series": rows}))
    samplers.Free()
    return convert([json.loads(text) for text in (texts or ())[1:]], tuple[NodeSeries, ...])
