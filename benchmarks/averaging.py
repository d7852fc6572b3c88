"""What measuring the averaging of gradients costs: steps with the benchmark's hook over steps with torch's own path.

    mpirun -np 2 python benchmarks/averaging.py [--network resnet20] [--pixels 32] [--batch 32] [--blocks 15]

All ranks train one network, one thread and one core each; both kinds of step take turns, block by block, in the same
processes. A ratio of 1 means that the hook costs nothing.
"""

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from socket import gethostname

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from mpi4py import MPI
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from hpcai import networks
from hpcai.clock import now
from hpcai.comm.grid import Group, split
from hpcai.comm.rendezvous import process_group
from hpcai.inputfile import Case
from hpcai.machine.inventory import processor, versions
from hpcai.models.module import build
from hpcai.train.communication import communication_of
from hpcai.train.data_parallel import replicate

WORLD = MPI.COMM_WORLD
CPU = torch.device("cpu")
CLASSES = 10


def step_of(network: nn.Module, batch: int, pixels: int, end: Callable[[], None]) -> Callable[[], None]:
    """A training step on one batch; `end` follows its backward pass."""
    optimiser = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, fused=True)
    x = torch.randn(batch, 3, pixels, pixels).contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, CLASSES, (batch,))

    def step() -> None:
        cross_entropy(network(x), y).backward()
        end()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def timed(step: Callable[[], None]) -> tuple[float, float]:
    """Seconds of two steps by the clock and of the processor, of the slowest rank."""
    WORLD.Barrier()
    begin, used = now(), time.process_time()
    step()
    step()
    own = now() - begin, time.process_time() - used
    return WORLD.allreduce(own[0], MPI.MAX), WORLD.allreduce(own[1], MPI.MAX)


def measure(options: argparse.Namespace, group: Group) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Seconds of blocks with the hook and of blocks without, in turn."""
    graph = networks.build(options.network, (options.pixels,) * 2, 3, CLASSES)
    modules = [build(graph, 1).to(memory_format=torch.channels_last) for _ in range(2)]  # type: ignore[call-overload]
    communication = communication_of(Case(1, "", {"WIRE": "fp32", "ALLREDUCE": "flat"}), group, CPU)
    hooked = replicate(modules[0], group, CPU, communication)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        plain = DistributedDataParallel(modules[1], broadcast_buffers=False, gradient_as_bucket_view=True)
    steps = (
        step_of(hooked, options.batch, options.pixels, communication.end_backward),
        step_of(plain, options.batch, options.pixels, lambda: None),
    )
    blocks = [(timed(steps[0]), timed(steps[1])) for _ in range(2 + options.blocks)]
    return blocks[2:]


def main() -> None:
    """Print the machine, the versions and the ratios."""
    parser = argparse.ArgumentParser(description="Steps with the hook over steps with torch's own path.")
    parser.add_argument("--network", default="resnet20", choices=networks.NAMES)
    for name, default in (("pixels", 32), ("batch", 32), ("blocks", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if WORLD.size == 1:
        sys.exit("one rank does not communicate: start it with mpirun -np 2")
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, [cpus[WORLD.rank % len(cpus)]])
    torch.set_num_threads(1)
    group = split(WORLD, 1, WORLD.size, "row")
    assert group is not None
    with process_group(group, gethostname(), CPU):
        blocks = measure(options, group)
    if WORLD.rank == 0:
        print(f"{processor()}; {', '.join(f'{name} {number}' for name, number in versions().items())}")
        for kind, words in enumerate(("by the clock", "by processor time")):
            ratio = statistics.median(hooked[kind] / plain[kind] for hooked, plain in blocks)
            print(f"{options.network} on {WORLD.size} ranks, hook over torch's own, {words}: {ratio:.4f}")


if __name__ == "__main__":
    main()
