"""The ranks of link.py and parallel.py: steps of training with each path in turn, in the same processes.

A path is the settings in which it differs, `KEY=value`, separated by spaces; `none` is the training of each rank on its
own. The last line of rank 0 on stdout is a JSON object: by path, for each round the seconds of a step, the bytes that
the busiest host sent over its link in a step, and those that a rank sent to others, as counted, on average; by path the
bytes that a rank has to send by formula; and the paths that were refused, with the reason.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["OMP_NUM_THREADS"] = "1"

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
CPUS = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, [CPUS[WORLD.rank * len(CPUS) // WORLD.size]])  # hosts share no processor, if there are enough

import numpy as np  # noqa: E402, its threads are bound as this one is
import torch  # noqa: E402
from hosts import LINK, sent  # noqa: E402

from hpcai import networks  # noqa: E402
from hpcai.clock import now  # noqa: E402
from hpcai.comm import world as worlds  # noqa: E402
from hpcai.comm.grid import Group, split  # noqa: E402
from hpcai.comm.rendezvous import process_group  # noqa: E402
from hpcai.data.image_dataset import ArraySplit, Dataset  # noqa: E402
from hpcai.errors import HpcaiError  # noqa: E402
from hpcai.gradients.reductions import REDUCTIONS  # noqa: E402
from hpcai.gradients.wires import WIRES  # noqa: E402
from hpcai.inputfile import Case, parse  # noqa: E402
from hpcai.inputfile.split import Split  # noqa: E402
from hpcai.machine import device as devices  # noqa: E402
from hpcai.networks.graph import Graph  # noqa: E402
from hpcai.opcount.stages import parameters_of_a_rank  # noqa: E402
from hpcai.results.exchange_cost import channel_bytes  # noqa: E402
from hpcai.results.pipeline_cost import activation_bytes  # noqa: E402
from hpcai.train.communication import ACTIVATIONS, CHANNELS, Communication  # noqa: E402
from hpcai.train.loop import Training  # noqa: E402
from hpcai.training import assembly  # noqa: E402

CPU = torch.device("cpu")
CLASSES = 10
NONE = "none"
INPUT = """\
Over a link
No header
[ensemble]
generated DATASET
{network} NETWORK
{pixels} RESOLUTION
{groups} GROUPS
{degree} DEGREE
{batch} BATCH
1 EPOCHS
"""


def case_of(options: argparse.Namespace, path: str) -> Case:
    """The case of a path, or of ranks on their own."""
    groups, degree = (WORLD.size, 1) if path == NONE else (1, WORLD.size)
    settings = [] if path == NONE else [setting.split("=") for setting in path.split()]
    text = INPUT.format(**vars(options), groups=groups, degree=degree)
    text += "".join(f"{value} {key}\n" for key, value in settings)
    return parse(text, ranks=WORLD.size).cases(WORLD.size, 0)[0]


class Groups:
    """The groups of all ranks, one for each way in which a case divides its model. Collective."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, Split], Group] = {}

    def of(self, case: Case) -> Group:
        """The group of a case."""
        key = case.groups, case.split
        if key not in self._made:
            group = split(WORLD, case.groups, case.degree, "row", case.split)
            assert group is not None, "no rank is idle"
            self._made[key] = group
        return self._made[key]


class Steps:
    """The training of a path, in blocks of steps; the same arguments on all ranks."""

    def __init__(self, options: argparse.Namespace, case: Case, group: Group) -> None:
        shape = 3, options.pixels, options.pixels
        self._graph = networks.for_data(case, shape, CLASSES)
        self._training, self._case = training_of(options, case, group, self._graph), case
        self._communication = self._training.execution.communication

    @property
    def needed(self) -> float:
        """Bytes that a rank has to send in a step by formula, on average."""
        case, graph, samples = self._case, self._graph, self._case.batch * WORLD.size
        gradients = gradient_bytes(case, graph, self._communication)
        return gradients + channel_bytes(case, graph, samples) + activation_bytes(case, graph, samples)

    def block(self, steps: int) -> tuple[float, float, float]:
        """Seconds of a step on the slowest rank, bytes of a step over a link and of a rank. Collective."""
        worlds.sleeping_barrier(WORLD)
        before, counted, begin = sent(LINK), sent_to_others(self._communication), now()
        self._training.run_uncredited(range(steps))
        seconds = now() - begin
        worlds.sleeping_barrier(WORLD)
        slowest, most = (WORLD.allreduce(value, MPI.MAX) for value in (seconds, sent(LINK) - before))
        total = WORLD.allreduce(sent_to_others(self._communication) - counted)
        return slowest / steps, most / steps, total / WORLD.size / steps


def gradient_bytes(case: Case, graph: Graph, communication: Communication) -> float:
    """Bytes that a rank has to send to sum the gradients of a step by the path's algorithm; 0 with one replica."""
    links, path = communication.group_links, communication.path
    if links is None or path is None:
        return 0.0
    reduction = REDUCTIONS[path.reduction]()
    elements, sizes = parameters_of_a_rank(graph, case.cut), links.sizes(reduction.links)
    return sum(reduction.bytes_sent(elements, sizes, WIRES[case.wire].nbytes).values())


def sent_to_others(communication: Communication) -> float:
    """Bytes that this rank has counted so far."""
    measured, links = communication.measured(), communication.group_links
    names = [*map(str, links.sent() if links else ()), CHANNELS, ACTIVATIONS]
    return sum(measured.get(name, 0.0) for name in names)


def training_of(options: argparse.Namespace, case: Case, group: Group, graph: Graph) -> Training:
    """The training that the benchmark makes, on random pictures in memory, one block of steps an epoch."""
    samples, shape = options.steps * options.batch * WORLD.size, (3, options.pixels, options.pixels)
    random, half = np.random.default_rng(1), (0.5, 0.5, 0.5)
    pictures, labels = random.integers(0, 256, (samples, *shape), np.uint8), random.integers(0, CLASSES, samples)
    split_ = ArraySplit(pictures, labels)
    dataset = Dataset("random", "memory", shape, CLASSES, half, half, 1.0, "0" * 64, split_, split_)
    return assembly.model_training(case, group, CPU, dataset, graph)


def measure(options: argparse.Namespace, groups: Groups) -> dict[str, object]:
    """Rounds of all paths in turn, each time another one first; the first round does not count."""
    made: dict[str, Steps] = {}
    refused: dict[str, str] = {}
    for path in [*options.paths, NONE]:
        try:
            case = case_of(options, path)
            made[path] = Steps(options, case, groups.of(case))
        except HpcaiError as error:
            refused[path] = str(error).splitlines()[-1].strip()
    found: dict[str, list[tuple[float, float, float]]] = {path: [] for path in made}
    names = [*made]
    for turn in range(1 + options.rounds):
        for path in names[turn % len(names) :] + names[: turn % len(names)]:
            found[path].append(made[path].block(options.steps))
    measured = {path: rounds[1:] for path, rounds in found.items()}
    return {"measured": measured, "needed": {path: each.needed for path, each in made.items()}, "refused": refused}


def main() -> None:
    """Measure the paths of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    for name in ("pixels", "batch", "rounds", "steps"):
        parser.add_argument(name, type=int)
    parser.add_argument("paths", nargs="+", help="'KEY=value …'")
    options = parser.parse_args()
    devices.prepare(CPU, 1)
    groups = Groups()
    with process_group(groups.of(case_of(options, "PARALLEL=data")), os.uname().nodename, CPU):
        found = measure(options, groups)
    if WORLD.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
