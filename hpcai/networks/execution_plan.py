"""Execution plan of a graph: which layers overwrite an input, and after which layer each output is freed.

The torch module and the memory estimate both follow this plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, MaxPool, Op, Relu

# Layers whose backward pass does not read their output, which may therefore be overwritten.
_OVERWRITABLE = (Add, BatchNorm, Conv, Dense, MaxPool)


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """A layer, the input that its output overwrites (if any), and the outputs that are freed after it."""

    layer: Layer
    overwrites: str | None
    frees: tuple[str, ...]


def execution_plan(graph: Graph) -> tuple[PlannedLayer, ...]:
    """The layers in the order of the graph, without its inputs."""
    ops = {layer.name: layer.op for layer in graph.layers}
    last_reader = {name: layer.name for layer in graph.layers for name in layer.inputs}
    return tuple(
        PlannedLayer(
            layer,
            _overwritten(graph, layer, ops),
            tuple(name for name in dict.fromkeys(layer.inputs) if last_reader[name] == layer.name),
        )
        for layer in graph.computed
    )


def _overwritten(graph: Graph, layer: Layer, ops: dict[str, Op]) -> str | None:
    if not isinstance(layer.op, Relu | Add):
        return None
    exclusive = (name for name in layer.inputs if graph.readers[name] == 1)
    return next((name for name in exclusive if isinstance(ops[name], _OVERWRITABLE)), None)


def batch_norm_site(group: Sequence[PlannedLayer], size: Sequence[int]) -> str:
    """Text of a batch norm on a batch of that size (images, channels, rows, columns) and the layers fused with it."""
    numbers = " ".join(f"{letter}{number}" for letter, number in zip("nchw", size, strict=True))
    return " ".join([numbers, *(planned.layer.op.kind for planned in group[1:])])


def sequence_site(op: Op, size: Sequence[int]) -> str:
    """Text of an RMS norm or an attention on rows of that size (samples, places, features)."""
    numbers = " ".join(f"{letter}{number}" for letter, number in zip("nsd", size, strict=True))
    return f"{op.kind} {numbers}"


def fused_groups(plan: Sequence[PlannedLayer]) -> Iterator[tuple[PlannedLayer, ...]]:
    """The plan in groups that one kernel can compute: batch norm, then a sum of it and one other input, then a ReLU.

    No layer outside a group reads an output within the group, except for its last.
    """
    place = 0
    while place < len(plan):
        end = place + 1
        if isinstance(plan[place].layer.op, BatchNorm):
            end += _is_only_reader(plan, end, Add) and len(plan[end].layer.inputs) == 2
            end += _is_only_reader(plan, end, Relu)
        yield tuple(plan[place:end])
        place = end


def _is_only_reader(plan: Sequence[PlannedLayer], place: int, kind: type[Op]) -> bool:
    """Whether the layer at a place is of that kind, and the only reader of the output of the layer before it."""
    if place == len(plan) or not isinstance(plan[place].layer.op, kind):
        return False
    source = plan[place - 1].layer.name
    return plan[place].layer.inputs.count(source) == 1 and source in plan[place].frees
