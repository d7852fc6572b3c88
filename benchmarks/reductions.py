"""The reductions of results, as the simulated ranks of `message_counts.py` make them, by what they bring together."""

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from hpcai import run
from hpcai.comm import world
from hpcai.comm.grid import Group, split
from hpcai.comm.node_statistics import Nodes
from hpcai.comm.world import World
from hpcai.detections.coco_evaluation import ROW, Matches
from hpcai.errors import InputError, Refused
from hpcai.frozen.votes import Sampled
from hpcai.inputfile import Case, parse
from hpcai.inputfile.split import Split
from hpcai.machine.affinity import Placement
from hpcai.machine.node_sensors import NAMES
from hpcai.monitoring.over_nodes import further, over_nodes
from hpcai.monitoring.wall_clock import WallClock
from hpcai.record.content import DataContent
from hpcai.record.dataset import ImageValidation
from hpcai.record.plain import plain
from hpcai.record.sample_loading import Loading
from hpcai.record.training import StepSeconds
from hpcai.search.durations import Durations
from hpcai.search.group_totals import GroupTotals
from hpcai.search.search_rules import Counts
from hpcai.train import step_times, training_checks
from hpcai.train.all_reduce_paths import refuse_unequal_nodes
from hpcai.train.content_findings import ContentFindings, delivered
from hpcai.train.detection_quality import quality
from hpcai.train.kept_votes import KeptVotes
from hpcai.training import totals
from hpcai.training.times import PhaseAccount
from hpcai.workloads.nas import totals as search_totals

DEGREE = 8  # ranks of a group, and of a node
INPUT = 20_000  # bytes of an input
SAMPLES = 20  # of a node over time
FRAMES, CLASSES = 2000, 2  # of a validation set
KEPT = 64  # samples of which each model's class is kept
CPU = torch.device("cpu")
GRID = (1, DEGREE, "row", Split(DEGREE, 1))
HIERARCHICAL = "one\ntwo\n[ensemble]\nfashion DATASET\n0 GROUPS\n8 DEGREE\n4 BATCH\n1 EPOCHS\nhierarchical ALLREDUCE\n"


@dataclass
class Rank:
    """A rank of the world and of a group of the grid, and a value that differs between ranks."""

    world: World
    group: Group
    value: float


def ranked(of: World) -> Rank:
    """A rank with the communicators of the grid, of which all ranks take part. Collective."""
    made = split(of.comm, of.size // DEGREE, DEGREE, "row")
    assert made
    return Rank(of, made, 1 + of.rank * 7919 % 1009 / 1009)


def _input(rank: Rank) -> Any:
    return world.agreed(rank.world.comm, lambda: "x" * INPUT)


def _error(rank: Rank) -> Any:
    """The last rank fails."""

    def work() -> None:
        if rank.world.rank == rank.world.size - 1:
            raise InputError("a reason")

    try:
        world.on_all_ranks(rank.world.comm, work)
    except Refused as refused:
        return str(refused)
    raise AssertionError("not refused")


def _environment(rank: Rank) -> Any:
    """Warnings and accelerators, and the list of the first ranks."""
    placement = Placement(cpus=(0,), threads=1, sharers=0)
    listed = world.gather_listed(rank.world, plain(run._rank(rank.world, placement, CPU, [GRID])))
    assert len(listed) == (min(64, rank.world.size) if rank.world.rank < 64 else 0)
    return run._warnings(rank.world, placement), run.accelerators(rank.world, CPU)


def _unequal_nodes(rank: Rank) -> Any:
    """Whether the nodes allow the all-reduce that the input names."""
    return refuse_unequal_nodes(_cases(rank.world.size), rank.world)


@cache
def _cases(ranks: int) -> list[Case]:
    return parse(HIERARCHICAL.encode(), (), ranks).cases(ranks)


def _models(rank: Rank) -> Any:
    seconds = 1 / (1 + rank.group.coordinates.group)  # the same on all ranks of a model
    reached = ImageValidation(epoch=1, seconds=seconds, loss=0.1, counted=64, fingerprint=2**60, correct=40)
    apart = totals.between_nodes(rank.group, rank.world.rank // DEGREE)
    return totals.models_of(rank.group, 9, reached, apart)


def _work(rank: Rank) -> Any:
    progress = SimpleNamespace(samples=288, operations=10**12, steps=9, training_seconds=rank.value)
    training: Any = SimpleNamespace(state=SimpleNamespace(progress=progress, skipped_samples=0))
    dataset: Any = None
    loading = totals.loading_of(Loading, {"wait_seconds": rank.value}, rank.group.active)
    return totals.so_far("training", dataset, training, rank.group, ()), loading


def _times(rank: Rank) -> Any:
    own, comm = StepSeconds(count=9, mean=rank.value, median=rank.value, p95=rank.value), rank.group.active
    slowest, busy = step_times.of_slowest(own, comm), step_times.spread(rank.value, rank.world.host, comm)
    account = PhaseAccount().closed(SimpleNamespace(seconds={"training": rank.value}, between=0.0), comm)
    return slowest, busy, account, WallClock(rank.world).measured()


def _checks(rank: Rank) -> Any:
    """Findings of audited steps and of what arrived at the networks."""
    found = training_checks.Findings(replayed=1, deviation=(rank.value, "step 1 of model 0: conv1.weight"))
    contents = ContentFindings(samples=3, deviation=(rank.value, "sample 7: values"), content=5, validations=1)
    return training_checks.measured(found, rank.group), delivered(contents, DataContent(), rank.group)


def _search(rank: Rank) -> Any:
    """Work, seconds and proposals of a search, and what its coordinator counted."""
    group, waits = rank.group, Durations(3, rank.value, rank.value)
    runner: Any = SimpleNamespace(totals=GroupTotals(samples=288, steps=9, last_return=rank.value))
    request = SimpleNamespace(waits=waits, proposals=waits, rejected=1)
    coordinator = SimpleNamespace(coordinator=SimpleNamespace(counts=Counts(requests=9)), busy_seconds=0.5)
    first = coordinator if rank.world.rank == 0 else None
    leader: Any = SimpleNamespace(coordinator=first, request=request) if group.leader else None
    counts = search_totals._counts(group, leader)
    return (
        search_totals._work(group, runner, 0),
        search_totals._group_seconds(group, runner, rank.value + 1),
        search_totals._proposals(group, leader, ()),
        search_totals._coordinator(group, leader, counts, ()),
    )


def _telemetry(rank: Rank) -> Any:
    """Samples of the nodes over time, which the first rank of each node has."""
    nodes, first = rank.world.size // DEGREE, rank.world.node.rank == 0
    own = [(float(second), *[rank.value] * len(NAMES)) for second in range(1, SAMPLES + 1)] if first else None
    together = over_nodes(rank.world.comm, own, nodes)
    further(rank.world, own, nodes)
    return together


def _health(rank: Rank) -> Any:
    nodes = Nodes(rank.world)
    return nodes.statistics(rank.value), nodes.below(rank.value, 1.5)


def _quality(rank: Rank) -> Any:
    """Matched detections of a validation set, of which each rank has a part."""
    frames = np.arange(FRAMES)[rank.world.rank :: rank.world.size]
    rows = np.zeros(len(frames), ROW)
    rows["frame"], rows["score"], rows["hit"] = frames, rank.value, 1
    return quality(Matches(rows, np.full(CLASSES, len(frames), np.int64)), rank.group.active)


def _predictions(rank: Rank) -> Any:
    """Classes that the models give to kept samples, which the first rank writes to a file."""
    samples = np.arange(KEPT)
    kept = KeptVotes(Sampled(samples, samples[:0]), CLASSES)
    own = samples[rank.group.coordinates.member :: DEGREE]
    kept.note(own, np.eye(CLASSES)[own % CLASSES])
    found = kept.models(rank.group)
    assert found is None or (found == samples % CLASSES).all()


REDUCTIONS = {
    "input, from rank 0 to all": _input,
    "error of one rank": _error,
    "ranks, warnings, accelerators": _environment,
    "nodes of all-reduces": _unequal_nodes,
    "models": _models,
    "work and loading": _work,
    "times": _times,
    "checks of training": _checks,
    "search": _search,
    "telemetry": _telemetry,
    "rates of nodes": _health,
    "average precision": _quality,
    "predictions": _predictions,
}
