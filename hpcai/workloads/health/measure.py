"""Measures rates of each node; where a node is slow, again, since other work on a machine comes and goes."""

from collections.abc import Callable
from time import sleep
from typing import Protocol

import torch
from mpi4py import MPI

from hpcai.comm.node_statistics import Nodes, Statistics
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.formulas.node_health import ATTEMPTS, limit
from hpcai.inputfile import Case
from hpcai.machine import memory
from hpcai.plan.machine import limit_of_rank
from hpcai.plan.planner import rank_of
from hpcai.results.measured import Stopped
from hpcai.workloads.health.kernel_rates import kernel_rates
from hpcai.workloads.health.link_rates import BetweenNodes, WithinNode
from hpcai.workloads.health.record import HealthRaw, NodeRates, SkippedRate, SlowNode, Unit

Progress = Callable[[str, float], None]  # called with the next measurement and the share done

BETWEEN_ATTEMPTS = 1.0  # seconds


class Rate(Protocol):
    """A rate of a rank."""

    @property
    def name(self) -> str:
        """As printed."""

    @property
    def unit(self) -> Unit:
        """Of the rate."""

    def unavailable(self) -> str:
        """Why it is not measured; empty if it is. Collective, the same on every rank."""

    def measured(self) -> float:
        """Of this rank; 0 if a result was wrong, infinite if the rank has no part in it. Collective."""


def run(
    case: Case, world: World, device: torch.device, progress: Progress, shutdown: Shutdown, folder: str = ""
) -> HealthRaw | Stopped:
    """Measure one case; the same on every rank. On a shutdown it stops before the next rate. Collective."""
    nodes, threads = Nodes(world), torch.get_num_threads()
    rank = rank_of(device, limit_of_rank(device, world.node.size).nbytes, world.node.size, threads)
    kernels = kernel_rates(case, world.comm, device, rank)
    every: list[Rate] = [*kernels, WithinNode(world, device, nodes), BetweenNodes(world, nodes)]
    rates: list[NodeRates] = []
    skipped: list[SkippedRate] = []
    stopped = False
    for number, rate in enumerate(every):
        if stopped := shutdown.agreed(world.comm):
            break
        if why := rate.unavailable():
            skipped.append(SkippedRate(quantity=rate.name, why=why))
            continue
        progress(rate.name, number / len(every))
        rates.append(_of_nodes(rate, nodes, case["TOLERANCE"]))
    nodes.free()
    raw = HealthRaw(
        nodes=nodes.count,
        ranks=world.size,
        threads=world.comm.allreduce(threads, MPI.MIN),
        rates=tuple(rates),
        skipped=tuple(skipped),
    )
    return Stopped(raw) if stopped else raw


def _of_nodes(rate: Rate, nodes: Nodes, tolerance: float) -> NodeRates:
    """The rate of all nodes, the best of all attempts; of a rank with a wrong result 0. Collective."""
    best, wrong, attempts, slow = 0.0, False, 0, 1
    while attempts < ATTEMPTS and slow:
        sleep(BETWEEN_ATTEMPTS if attempts else 0.0)
        memory.release_unused()
        found = rate.measured()
        wrong |= found == 0.0
        best = 0.0 if wrong else max(best, found)
        statistics = nodes.statistics(best)
        slow = nodes.below(best, limit(statistics.median, statistics.deviation, statistics.nodes, tolerance))
        attempts += 1
    return _record(rate, attempts, statistics, slow)


def _record(rate: Rate, attempts: int, found: Statistics, slow: int) -> NodeRates:
    return NodeRates(
        quantity=rate.name,
        unit=rate.unit,
        attempts=attempts,
        minimum=found.minimum,
        lower_quartile=found.lower_quartile,
        median=found.median,
        upper_quartile=found.upper_quartile,
        maximum=found.maximum,
        deviation=found.deviation,
        slow=slow,
        slowest=tuple(SlowNode(host=node.host, rank=node.rank, rate=node.value) for node in found.lowest),
    )
