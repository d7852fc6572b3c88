"""Networks in JSON: what a history of a search holds, and what another run can read."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from hpcai.errors import InputError
from hpcai.networks import regions
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Op

Json = dict[str, Any]
KINDS = {op.kind: op for op in (*Op.__subclasses__(), *regions.KINDS)}


def to_json(graph: Graph) -> list[Json]:
    """The layers in order, each with its name, kind, what it reads, and its sizes."""
    return [
        {"name": layer.name, "kind": layer.op.kind, "inputs": list(layer.inputs)}
        | ({"shares": layer.shares} if layer.shares else {})
        | {field.name: _plain(getattr(layer.op, field.name)) for field in fields(layer.op)}
        for layer in graph.layers
    ]


def from_json(written: Sequence[Json]) -> Graph:
    """The graph that `to_json` wrote. InputError names the layer that is none, or does not fit."""
    return Graph(tuple(map(_layer, written)))


def _layer(written: Mapping[str, Any]) -> Layer:
    rest = dict(written)
    try:
        name, kind, inputs, shares = rest.pop("name"), rest.pop("kind"), rest.pop("inputs"), rest.pop("shares", "")
        op = KINDS[kind](**{field: _pair(value) for field, value in rest.items()})
    except (KeyError, TypeError) as error:
        raise InputError(f"not a layer of a network: {written} ({error}); kinds are {', '.join(KINDS)}") from None
    return Layer(name, op, tuple(inputs), shares)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
