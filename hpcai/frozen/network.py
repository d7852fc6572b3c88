"""Forward pass of a network in plain NumPy, float64, from the list of its layers and the values of its parameters.

Source of batch normalisation: Ioffe and Szegedy (2015), algorithms 1 and 2; epsilon and momentum as torch documents.
Of the layers of sequences: hpcai.frozen.sequence_layers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.layer_shapes import Layer
from hpcai.frozen.sequence_layers import attention, embedding, gated, root_mean_square_norm

Doubles = NDArray[np.float64]
Values = Mapping[str, Doubles]  # parameters and running statistics, "layer.weight" etc.

EPSILON, MOMENTUM = 1e-5, 0.1


class Pass(NamedTuple):
    """outputs: of each layer by name, float64[N, ...]; statistics: running ones as the pass leaves them."""

    outputs: dict[str, Doubles]
    statistics: dict[str, Doubles]


def forward(layers: Sequence[Layer], values: Values, images: Doubles, training: bool) -> Pass:
    """The pass of images float64[N, C, H, W], in training or in evaluation form."""
    found = Pass({layers[0].inputs[0]: images}, {})
    for layer in layers:
        own = _own(values, layer.shares or layer.name)
        first, *others = (found.outputs[name] for name in layer.inputs)
        if layer.op.kind == "batch norm":
            own, left = _normalising(own, first, training)
            found.statistics.update({f"{layer.name}.{kind}": value for kind, value in left.items()})
        found.outputs[layer.name] = _COMPUTE[layer.op.kind](layer.op, own, first, *others)
    return found


def _own(values: Values, name: str) -> Values:
    """The values of a layer, by kind."""
    return {key.rpartition(".")[2]: value for key, value in values.items() if key.rpartition(".")[0] == name}


def _normalising(own: Values, x: Doubles, training: bool) -> tuple[Values, Values]:
    """The values by which a batch norm normalises, and its running statistics afterwards."""
    kept = {kind: own[kind] for kind in ("running_mean", "running_var")}
    if not training:
        return own, kept
    mean, variance, n = x.mean((0, 2, 3)), x.var((0, 2, 3)), x.size // x.shape[1]
    of_batch = {"running_mean": mean, "running_var": variance * n / max(n - 1, 1)}
    left = {kind: (1 - MOMENTUM) * kept[kind] + MOMENTUM * of_batch[kind] for kind in kept}
    return {**own, "running_mean": mean, "running_var": variance}, left


def _batch_norm(op: Any, own: Values, x: Doubles) -> Doubles:
    scale = own["weight"] / np.sqrt(own["running_var"] + EPSILON)
    return _by_channel(scale) * (x - _by_channel(own["running_mean"])) + _by_channel(own["bias"])


def _by_channel(values: Doubles) -> Doubles:
    return values[:, None, None]


def _convolution(op: Any, own: Values, x: Doubles) -> Doubles:
    """Sum over the taps of the kernel, each a matrix product over the channels, group by group."""
    padded = _padded(x, op.padding, 0.0)
    inputs, outputs = x.shape[1] // op.groups, op.channels // op.groups
    y = np.concatenate(
        [
            sum(
                np.tensordot(weights, patch[:, group * inputs : (group + 1) * inputs], (1, 1))
                for weights, patch in _taps(own["weight"][group * outputs : (group + 1) * outputs], padded, op)
            )
            for group in range(op.groups)
        ]
    ).swapaxes(0, 1)
    return y + _by_channel(own["bias"]) if op.bias else y


def _taps(weights: Doubles, padded: Doubles, op: Any) -> Iterator[tuple[Doubles, Doubles]]:
    for (row, column), patch in _patches(padded, op.kernel, op.stride, op.dilation):
        yield weights[:, :, row, column], patch


def _patches(
    padded: Doubles, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, int], Doubles]]:
    """For each tap of a window: what it meets of a padded map at all places of the window."""
    ends = [side - step * (taps - 1) for side, taps, step in zip(padded.shape[2:], kernel, dilation, strict=True)]
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            top, left = row * dilation[0], column * dilation[1]
            yield (row, column), padded[:, :, top : top + ends[0] : stride[0], left : left + ends[1] : stride[1]]


def _padded(x: Doubles, padding: Sequence[int], value: float) -> Doubles:
    return np.pad(x, ((0, 0), (0, 0), *((edge, edge) for edge in padding)), constant_values=value)


def _max_pool(op: Any, own: Values, x: Doubles) -> Doubles:
    patches = _patches(_padded(x, op.padding, -np.inf), op.kernel, op.stride, (1, 1))
    return np.maximum.reduce([patch for _, patch in patches])


def _dense(op: Any, own: Values, x: Doubles) -> Doubles:
    y = x @ own["weight"].T
    return y + own["bias"] if op.bias else y


def _upsample(op: Any, own: Values, x: Doubles) -> Doubles:
    rows, columns = (np.arange(size) * side // size for size, side in zip(op.size, x.shape[2:], strict=True))
    return x[:, :, rows][:, :, :, columns]


_COMPUTE: Mapping[str, Callable[..., Doubles]] = {
    "convolution": _convolution,
    "batch norm": _batch_norm,
    "relu": lambda op, own, x: np.where(x > 0, x, 0.0),
    "add": lambda op, own, *inputs: np.add.reduce(inputs),
    "max pool": _max_pool,
    "global pool": lambda op, own, x: x.sum((2, 3)) / (x.shape[2] * x.shape[3]),
    "dense": _dense,
    "upsample": _upsample,
    "embedding": lambda op, own, x: embedding(own["weight"], x),
    "rms norm": lambda op, own, x: root_mean_square_norm(own["weight"], x),
    "attention": lambda op, own, x: attention(x),
    "swiglu": lambda op, own, x: gated(x),
}
