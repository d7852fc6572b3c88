"""The ranks of link.py: steps of data-parallel training with each WIRE and ALLREDUCE in turn, in the same processes.

The last line of rank 0 on stdout is a JSON object: by `WIRE ALLREDUCE`, for each round the seconds of a step and the
bytes that the busiest host sent over its link in a step; and the combinations that were refused, with the reason.
`none` is the same training without exchange.
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
from hpcai.inputfile import Case, parse  # noqa: E402
from hpcai.machine import device as devices  # noqa: E402
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
    """The case of `WIRE ALLREDUCE`, or of ranks on their own."""
    groups, degree = (WORLD.size, 1) if path == NONE else (1, WORLD.size)
    text = INPUT.format(**vars(options), groups=groups, degree=degree)
    if path != NONE:
        wire, reduction = path.split()
        text += f"{wire} WIRE\n{reduction} ALLREDUCE\n"
    return parse(text, ranks=WORLD.size).cases(WORLD.size, 0)[0]


def training_of(options: argparse.Namespace, case: Case, group: Group) -> Training:
    """The training that the benchmark makes, on random pictures in memory, one block of steps an epoch."""
    samples, shape = options.steps * options.batch * WORLD.size, (3, options.pixels, options.pixels)
    random, half = np.random.default_rng(1), (0.5, 0.5, 0.5)
    pictures, labels = random.integers(0, 256, (samples, *shape), np.uint8), random.integers(0, CLASSES, samples)
    split_ = ArraySplit(pictures, labels)
    dataset = Dataset("random", "memory", shape, CLASSES, half, half, 1.0, "0" * 64, split_, split_)
    return assembly.model_training(case, group, CPU, dataset, networks.for_data(case, shape, CLASSES))


def block(training: Training, steps: int) -> tuple[float, float]:
    """Seconds of a step on the slowest rank, and bytes a step over the link of the busiest host. Collective."""
    worlds.sleeping_barrier(WORLD)
    before, begin = sent(LINK), now()
    training.run_uncredited(range(steps))
    seconds = now() - begin
    worlds.sleeping_barrier(WORLD)
    slowest, most = (WORLD.allreduce(value, MPI.MAX) for value in (seconds, sent(LINK) - before))
    return slowest / steps, most / steps


def measure(options: argparse.Namespace, group: Group, alone: Group) -> dict[str, object]:
    """Rounds of all paths in turn, each time another one first; the first round does not count."""
    trainings, refused = {}, {}
    for path in [*options.paths, NONE]:
        try:
            trainings[path] = training_of(options, case_of(options, path), alone if path == NONE else group)
        except HpcaiError as error:
            refused[path] = str(error).splitlines()[-1].strip()
    found: dict[str, list[tuple[float, float]]] = {path: [] for path in trainings}
    names = [*trainings]
    for turn in range(1 + options.rounds):
        for path in names[turn % len(names) :] + names[: turn % len(names)]:
            found[path].append(block(trainings[path], options.steps))
    return {"measured": {path: rounds[1:] for path, rounds in found.items()}, "refused": refused}


def main() -> None:
    """Measure the paths of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    for name in ("pixels", "batch", "rounds", "steps"):
        parser.add_argument(name, type=int)
    parser.add_argument("paths", nargs="+", help="'WIRE ALLREDUCE'")
    options = parser.parse_args()
    devices.prepare(CPU, 1)
    group, alone = split(WORLD, 1, WORLD.size, "row"), split(WORLD, WORLD.size, 1, "row")
    assert group is not None
    assert alone is not None
    with process_group(group, os.uname().nodename, CPU):
        found = measure(options, group, alone)
    if WORLD.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
