"""Times of the stages of a pipeline, by how many operations a parameter counts as where the network is cut.

    python benchmarks/pipeline.py [--network resnet50] [--pixels 128] [--stages 2 3] [--samples 2 4 8 16] [--rounds 3]

Each stage runs forward and backward alone, on one thread, with random inputs; the fastest round counts. The slowest
stage decides about the pipeline. 0 cuts the network into stages of nearly equal operations.
"""

import argparse
from itertools import product
from time import perf_counter

import torch

from hpcai import networks
from hpcai.inputfile.split import Cut
from hpcai.models.module import Network, initialise
from hpcai.networks.graph import Graph
from hpcai.opcount import stages

PARAMETER_OPERATIONS = (0, 200, 400, 600)
CLASSES = 100


def module_of(stage: Graph) -> Network:
    module = Network(stage).to_empty(device="cpu")
    for layer in module.children():
        initialise(layer, torch.Generator().manual_seed(0))
    return module.to(memory_format=torch.channels_last)


def inputs_of(stage: Graph, samples: int) -> tuple[torch.Tensor, ...]:
    shapes = [stage.shapes[layer.name] for layer in stage.inputs]
    made = [torch.randn(samples, *shape).contiguous(memory_format=torch.channels_last) for shape in shapes]
    return tuple(made) if stage.inputs[0].name == "image" else tuple(tensor.requires_grad_() for tensor in made)


def seconds(stage: Graph, samples: int, rounds: int) -> float:
    """Of a micro-batch, forward and backward."""
    module, inputs, taken = module_of(stage), inputs_of(stage, samples), []
    for _ in range(1 + rounds):
        begin = perf_counter()
        found = module(*inputs)
        outputs = found if isinstance(found, tuple) else (found,)
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
        taken.append(perf_counter() - begin)
    return min(taken[1:])


def line(graph: Graph, cut: Cut, rounds: int, operations: int) -> str:
    stages.PARAMETER_OPERATIONS = operations
    stages.stages_of.cache_clear()
    taken = [seconds(stage, cut.samples, rounds) for stage in stages.stages_of(graph, cut)]
    each = " ".join(f"{1e3 * time:8.1f}" for time in taken)
    return f"{cut.stages:6} {cut.samples:7} {operations:20} {1e3 * max(taken):12.1f}   {each}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--pixels", type=int, default=128)
    parser.add_argument("--stages", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--samples", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    graph = networks.build(options.network, (options.pixels, options.pixels), 3, CLASSES)
    print("stages samples operations/parameter slowest, ms   each stage, ms")
    for count, samples, operations in product(options.stages, options.samples, PARAMETER_OPERATIONS):
        print(line(graph, Cut(count, 1, samples), options.rounds, operations), flush=True)


if __name__ == "__main__":
    main()
