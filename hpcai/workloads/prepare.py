"""A case before it runs, without MPI: its network, whether it can be run, and what memory and time it will take."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from hpcai import clock, estimate, networks, opcount
from hpcai.data import catalog
from hpcai.data.dataset import Dataset
from hpcai.data.order import Shard
from hpcai.errors import HpcaiError, InputError
from hpcai.inputfile import Case, Problem
from hpcai.machine import compilers
from hpcai.machine import device as devices
from hpcai.machine.affinity import cores, own_cpus
from hpcai.models.module import build
from hpcai.networks.graph import Graph
from hpcai.train import precision

LEAST_POISSON = 64  # samples a rank: fewer than 2 draws then have a chance of 1e-26
PROBED_OPERATIONS = 20 * 10**9  # of one forward pass, at most, where one image has fewer
PROBES = 2  # timed forward passes, after one that is not


def check(cases: Sequence[Case]) -> None:
    """Raise InputError, with every reason, if a case cannot be run: data damaged or too few, maps too small."""
    wrong: dict[str, int] = {}
    for case in cases:
        try:
            _check(case)
        except HpcaiError as error:
            wrong.setdefault(str(error), case.index)
    if wrong:
        raise InputError("; ".join(f"test {index} cannot be run: {reason}" for reason, index in wrong.items()))


def _check(case: Case) -> None:
    dataset = catalog.open_for(case.settings)
    graph = network(case, dataset)
    Shard(len(dataset.train), 0, case["DEGREE"], case["BATCH"])
    if reason := compilers.refusal(case["COMPILE"], case["DEGREE"], devices.accelerators() > 0):
        raise InputError(reason)
    smallest = min(height * width for _, height, width in (s for s in graph.shapes.values() if len(s) == 3))
    least = LEAST_POISSON * case["DEGREE"]
    if case["GROUPS"] > 1 and case["SAMPLER"] == "poisson" and len(dataset.train) < least:
        raise InputError(f"{len(dataset.train)} samples for the poisson sampler, which may draw none; at least {least}")
    if (refusal := precision.refusal(case["PRECISION"], devices.own(0))) is not None:
        raise InputError(refusal)
    if case["BATCH"] * smallest < 2:
        raise InputError(f"BATCH 1 with maps of one pixel ({case['NETWORK']}): batch norm needs two values a channel")


def network(case: Case, dataset: Dataset) -> Graph:
    """The layer graph that a case trains on a dataset."""
    return networks.for_data(case.settings, dataset.shape, dataset.classes)


def plans(problem: Problem, ranks: int) -> list[dict[str, Any]]:
    """The plan of each case of a problem on `ranks` ranks, for one node like this one."""
    device = devices.own(0)
    devices.prepare(device, max(1, len(cores(own_cpus())) // ranks))
    cases = problem.cases(ranks, devices.accelerators())
    check(cases)
    return [plan(case, device) for case in cases]


def plan(case: Case, device: torch.device) -> dict[str, Any]:
    """Settings, steps per model, bytes per rank and seconds of a case that runs on ranks like this one.

    The speed comes from one forward pass, scaled by the operations of the whole test.
    """
    dataset = catalog.open_for(case.settings)
    graph = network(case, dataset)
    shard = Shard(len(dataset.train), 0, case["DEGREE"], case["BATCH"])
    count = opcount.count(graph, "model")
    judged = len(dataset.validation) / case["DEGREE"] * case["EPOCHS"] / case["EVALUATE"]
    operations = shard.samples * case["EPOCHS"] * count.total + judged * count.forward
    nbytes = estimate.memory(graph, case["BATCH"], ranks=case["DEGREE"])["total"]
    return {
        "settings": dict(case.settings),
        "steps": shard.steps * case["EPOCHS"],
        "nbytes": nbytes,
        "seconds": estimate.seconds(operations, forward_rate(graph, _probed(case["BATCH"], count.forward), device)),
    }


def _probed(batch: int, operations: int) -> int:
    """Images of the forward pass that tells the speed: few enough for seconds, whatever the network."""
    return max(1, min(batch, 32, PROBED_OPERATIONS // operations))


@lru_cache
def forward_rate(graph: Graph, batch: int, device: torch.device) -> float:
    """FLOP per second of the network's forward pass on this rank's device."""
    module = build(graph, 0).to(device)
    x = torch.zeros(batch, *graph.shapes[graph.layers[0].name], device=device)
    x = x.to(memory_format=torch.channels_last)
    with torch.inference_mode():
        module(x)
        clock.synchronise(device)
        begin = clock.now()
        for _ in range(PROBES):
            module(x)
        clock.synchronise(device)
    return PROBES * batch * opcount.count(graph, "model").forward / (clock.now() - begin)
