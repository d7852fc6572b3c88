"""Memory of one rank in one test, by purpose: what stays, what a training step needs, and what the checks need."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from hpcai.estimate.liveness import FP32_BYTES, INDEX_BYTES, Storage, running_statistics, step_bytes
from hpcai.estimate.residuals import residual_bytes
from hpcai.networks.graph import Graph

MIB = 2**20
HALVES = {"fp32": (4, 4), "tf32": (4, 4), "fp16": (2, 4), "bf16": (2, 4), "pure16": (2, 2)}
BATCHES_AHEAD = 4  # in the queue, being made, just taken
# What malloc adds where large blocks of many sizes come and go (benchmarks/memory.py): 1.25 to 1.45 on glibc 2.36.
FRAGMENTATION = 1.45
SMALL_OBJECTS = 12 * MIB  # of Python and torch: hooks, autograd's nodes, oneDNN's kernels, by and by
PROFILED_LAYER = 3 * MIB // 4  # of a layer's operators in the profiled stretch, in the profiler's own books
NETWORKED = 12 * MIB  # threads, sockets and staging of a group that sums gradients
ALTERNATIVES = ("step", "residuals")  # purposes of which only one is served at a time


@dataclass(frozen=True)
class Facts:
    """What a test's memory depends on beside its settings: bytes of the data kept in memory, and of one picture.

    `converted`: 16-bit convolutions are computed in fp32. `accelerated`: all but the data lies on a GPU.
    """

    data_bytes: int
    picture_bytes: int
    converted: bool = False
    accelerated: bool = False


def memory(graph: Graph, settings: Mapping[str, Any], facts: Facts) -> dict[str, int]:
    """Most bytes of one rank of a test by purpose; process and libraries (the baseline) are not in it.

    On a GPU they are bytes of the GPU, and the data are left out. Their `total` counts the larger one of ALTERNATIVES.
    """
    activation, parameter = HALVES[settings["PRECISION"]]
    degree, batch = settings["DEGREE"], settings["BATCH"]
    parameters = sum(graph.parameters.values())
    weights = parameters * parameter + running_statistics(graph) * FP32_BYTES
    storage = Storage(activation, parameter, facts.converted, gradients=degree == 1)
    momentum = bool(settings["MOMENTUM"])
    return {
        "data": 0 if facts.accelerated else facts.data_bytes,
        "weights": weights,
        "optimiser": parameters * parameter * momentum,
        "audit": parameters * parameter * (4 if momentum else 2),
        "snapshot": weights + parameters * parameter * momentum,
        "buckets": (parameters * parameter + NETWORKED) * (degree > 1),
        "batches": _batches(graph, batch, facts),
        "step": round(FRAGMENTATION * step_bytes(graph, batch, storage)),
        "residuals": residual_bytes(graph, batch),
        "profile": PROFILED_LAYER * len(graph.layers),
        "other": SMALL_OBJECTS,
    }


def total(rows: Mapping[str, int]) -> int:
    """Most bytes at once."""
    either = max(rows[name] for name in ALTERNATIVES)
    return sum(nbytes for name, nbytes in rows.items() if name not in ALTERNATIVES) + either


def _batches(graph: Graph, batch: int, facts: Facts) -> int:
    """Pictures as bytes, loaded ahead, and as normalised fp32, which a change of resolution makes twice."""
    pixels = prod(graph.shapes[graph.layers[0].name])
    scaled = 1 + (facts.picture_bytes != pixels)
    return batch * (BATCHES_AHEAD * (facts.picture_bytes + INDEX_BYTES) + (1 + scaled) * pixels * FP32_BYTES)
