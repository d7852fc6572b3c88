"""Memory and time of a training step before it runs, from the graph alone."""

from math import prod

from hpcai.networks.graph import Graph
from hpcai.networks.layers import BatchNorm, Conv, Dense, MaxPool, Relu, Softmax
from hpcai.networks.plan import plan

INDEX_BYTES = 8  # torch keeps labels and the positions of pooled maxima as int64


def memory(
    graph: Graph, batch: int, optimiser_slots: int = 1, bytes_per_element: int = 4, ranks: int = 1
) -> dict[str, int]:
    """Bytes one rank holds when the forward pass of a training step on `batch` images ends, by purpose and in total.

    `optimiser_slots` values are kept for each parameter (momentum: 1); `ranks` train the model together, and from 2 on
    gradients are copied into buckets. Work space, framework and process are not in it.
    """
    elements = bytes_per_element
    gradients = sum(graph.parameters.values()) * elements
    parts = {
        "weights": gradients + _running_statistics(graph) * elements,
        "gradients": gradients,
        "optimiser": gradients * optimiser_slots,
        "activations": _activations(graph, batch, elements),
        "inputs": batch * (prod(graph.shapes[graph.layers[0].name]) * elements + INDEX_BYTES),
    }
    if ranks > 1:
        parts["buckets"] = gradients
    return parts | {"total": sum(parts.values())}


def seconds(operations: float, flops: float) -> float:
    """Time of `operations` at a rate of `flops` operations a second."""
    return operations / flops


def _running_statistics(graph: Graph) -> int:
    """Mean and variance of each normalised channel."""
    return sum(2 * graph.shapes[layer.name][0] for layer in graph.layers if isinstance(layer.op, BatchNorm))


def _activations(graph: Graph, batch: int, elements: int) -> int:
    """Bytes kept for the backward pass: outputs that gradients need, each memory once, and what layers keep beside."""
    image = graph.layers[0].name
    memory_of = _memory_of(graph)
    kept = {memory_of[name] for name in _needed(graph)} - {image}
    pooled = [layer.name for layer in graph.layers if isinstance(layer.op, MaxPool) and layer.name in graph.trained]
    per_image = sum(prod(graph.shapes[name]) for name in kept) * elements
    per_image += sum(prod(graph.shapes[name]) for name in pooled) * INDEX_BYTES
    return batch * per_image + _running_statistics(graph) * elements  # batch norm keeps mean and deviation of the batch


def _memory_of(graph: Graph) -> dict[str, str]:
    """For each layer, the layer whose memory its output lies in: its own, or what it overwrites."""
    memory_of = {graph.layers[0].name: graph.layers[0].name}
    for step in plan(graph):
        memory_of[step.layer.name] = memory_of[step.overwrites] if step.overwrites else step.layer.name
    return memory_of


def _needed(graph: Graph) -> set[str]:
    """Outputs that some gradient is computed from."""
    needed = set()
    for layer in graph.layers:
        if layer.name in graph.trained:
            match layer.op:
                case Conv() | Dense() | BatchNorm() | MaxPool():
                    needed.add(layer.inputs[0])
                case Relu() | Softmax():
                    needed.add(layer.name)
    return needed
