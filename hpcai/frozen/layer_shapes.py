"""Shapes of the outputs and of the parameters of a list of layers, and its multiplications."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

Shape = tuple[int, ...]


class Layer(Protocol):
    """A layer of any description: `op` has a `kind` and the numbers that this kind needs."""

    @property
    def name(self) -> str: ...
    @property
    def op(self) -> Any: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def shares(self) -> str: ...


def shapes(layers: Sequence[Layer], image: Shape) -> dict[str, Shape]:
    """Shape of each layer's output for an input (channels, height, width), by name; the first layer reads it."""
    found = {layers[0].inputs[0]: image}
    for layer in layers:
        found[layer.name] = _shape(layer.op, *(found[name] for name in layer.inputs))
    return found


def _shape(op: Any, source: Shape, *others: Shape) -> Shape:
    match op.kind:
        case "convolution":
            reach = [step * (side - 1) + 1 for side, step in zip(op.kernel, op.dilation, strict=True)]
            return (op.channels, *_places(source, reach, op))
        case "max pool":
            return (source[0], *_places(source, op.kernel, op))
        case "global pool":
            return source[:1]
        case "dense":
            return (*source[:-1], op.features)
        case "embedding":
            return (source[-1], op.features)
        case "attention":
            return (source[0], source[1] // 3)
        case "swiglu":
            return (source[0], source[1] // 2)
        case "upsample":
            return (source[0], *op.size)
        case "proposals":
            return (op.regions, 4)
        case "roi align":
            return (source[0], others[0][0] * op.side**2)
    return source


def _places(source: Shape, reach: Sequence[int], op: Any) -> Shape:
    """How often a window that reaches so far fits into a padded map."""
    sides = zip(source[1:], reach, op.stride, op.padding, strict=True)
    return tuple((side + 2 * edge - window) // step + 1 for side, window, step, edge in sides)


def parameters(layers: Sequence[Layer], image: Shape) -> dict[str, Shape]:
    """Shapes of weights, offsets and running statistics by the name of layer and value; what is shared counts once."""
    at, found = shapes(layers, image), dict[str, Shape]()
    for layer in layers:
        for kind, shape in ({} if layer.shares else _parameters(layer.op, at[layer.inputs[0]])).items():
            found[f"{layer.name}.{kind}"] = shape
    return found


def _parameters(op: Any, source: Shape) -> Mapping[str, Shape]:
    match op.kind:
        case "convolution":
            weights = {"weight": (op.channels, source[0] // op.groups, *op.kernel)}
            return weights | ({"bias": (op.channels,)} if op.bias else {})
        case "dense":
            return {"weight": (op.features, source[-1])} | ({"bias": (op.features,)} if op.bias else {})
        case "embedding":
            return {"weight": (op.channels, op.features)}
        case "rms norm":
            return {"weight": source[-1:]}
        case "batch norm":
            return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), source[:1])
    return {}


def multiplications(layers: Sequence[Layer], image: Shape) -> int:
    """Multiplications of convolutions, dense layers and attention for one image."""
    at, total = shapes(layers, image), 0
    for layer in layers:
        if layer.op.kind == "attention":
            total += at[layer.name][0] * prod(at[layer.name])
            continue
        weights = _parameters(layer.op, at[layer.inputs[0]]).get("weight", ())
        if len(weights) > 1 and layer.op.kind != "embedding":
            total += prod(weights[1:]) * prod(at[layer.name])
    return total
