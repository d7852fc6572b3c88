"""Operations of one training image, counted from the executed graph by one of three rules."""

from collections.abc import Callable
from dataclasses import dataclass

from hpcai.errors import InputError
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Shape
from hpcai.opcount.rules import ShapedLayer, aiperf, hpcai500, model

__all__ = ["RULES", "Count", "LayerCount", "count", "walk"]

RULES: dict[str, Callable[[ShapedLayer], tuple[int, int]]] = {"model": model, "aiperf": aiperf, "hpcai500": hpcai500}


@dataclass(frozen=True, slots=True)
class LayerCount:
    """Operations of one layer for one image; shape is that of its output."""

    name: str
    kind: str
    shape: Shape
    forward: int
    backward: int


@dataclass(frozen=True, slots=True)
class Count:
    """Operations of a network for one image, in whole operations, with a row for each layer but the input."""

    rule: str
    forward: int
    backward: int
    layers: tuple[LayerCount, ...]

    @property
    def total(self) -> int:
        return self.forward + self.backward


def count(graph: Graph, rule: str) -> Count:
    """Operations per image, forward and backward, by rule `model`, `aiperf` or `hpcai500`; InputError for another."""
    if rule not in RULES:
        raise InputError(f"unknown rule {rule!r}; allowed are {', '.join(RULES)}")
    rows = tuple(_layer_count(shaped, rule) for shaped in walk(graph))
    return Count(rule, sum(row.forward for row in rows), sum(row.backward for row in rows), rows)


def walk(graph: Graph) -> list[ShapedLayer]:
    """Each layer but the input, in the order of execution, with the shapes of its inputs and output."""
    return [
        ShapedLayer(
            layer,
            sources=tuple(graph.shapes[name] for name in layer.inputs),
            output=graph.shapes[layer.name],
            input_gradient=not graph.trained.isdisjoint(layer.inputs),
        )
        for layer in graph.computed
    ]


def _layer_count(shaped: ShapedLayer, rule: str) -> LayerCount:
    forward, backward = RULES[rule](shaped)
    return LayerCount(shaped.layer.name, shaped.layer.op.kind, shaped.output, forward, backward)
