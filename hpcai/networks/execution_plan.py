"""How a graph is executed with little memory: what may be computed in place, and when an output is no longer needed.

The module that trains and the estimate of its memory both follow this plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, MaxPool, Op, Relu

# Their gradient needs inputs or nothing, never the output: it may be written over.
_REPLACEABLE = (Add, BatchNorm, Conv, Dense, MaxPool)


@dataclass(frozen=True, slots=True)
class Step:
    """One layer: the input whose memory its output takes over (if any), and the outputs dead once it has run."""

    layer: Layer
    overwrites: str | None
    frees: tuple[str, ...]


def plan(graph: Graph) -> tuple[Step, ...]:
    """Steps in the order of the graph, without its input."""
    ops = {layer.name: layer.op for layer in graph.layers}
    last_reader = {name: layer.name for layer in graph.layers for name in layer.inputs}
    return tuple(
        Step(
            layer,
            _overwritten(graph, layer, ops),
            tuple(name for name in dict.fromkeys(layer.inputs) if last_reader[name] == layer.name),
        )
        for layer in graph.layers[1:]
    )


def _overwritten(graph: Graph, layer: Layer, ops: dict[str, Op]) -> str | None:
    if not isinstance(layer.op, Relu | Add):
        return None
    own = (name for name in layer.inputs if graph.readers[name] == 1)
    return next((name for name in own if isinstance(ops[name], _REPLACEABLE)), None)


def in_words(group: Sequence[Step], size: Sequence[int]) -> str:
    """A batch norm of pictures of that size (images, channels, rows, columns), and what is computed at once with it."""
    numbers = " ".join(f"{letter}{number}" for letter, number in zip("nchw", size, strict=True))
    return " ".join([numbers, *(step.layer.op.kind for step in group[1:])])


def joined(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """The steps in groups that can be computed at once: batch norm, a sum of it and one other, a ReLU of either.

    Nobody else reads what is made within a group.
    """
    place = 0
    while place < len(steps):
        end = place + 1
        if isinstance(steps[place].layer.op, BatchNorm):
            end += _passes_on(steps, end, Add) and len(steps[end].layer.inputs) == 2
            end += _passes_on(steps, end, Relu)
        yield tuple(steps[place:end])
        place = end


def _passes_on(steps: Sequence[Step], place: int, kind: type[Op]) -> bool:
    """Whether the step at a place is of that kind, and the only one that reads what the one before it makes."""
    if place == len(steps) or not isinstance(steps[place].layer.op, kind):
        return False
    made = steps[place - 1].layer.name
    return steps[place].layer.inputs.count(made) == 1 and made in steps[place].frees
