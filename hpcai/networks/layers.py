"""Kinds of layers: hyper-parameters, output shapes, numbers of parameters.

Shapes are those of one sample, without the batch: (channels, height, width) of a map, (features,) of a vector,
(rows, features) of a table, whose rows are a sample's regions or the places of a sequence.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

Shape = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Op:
    """Operation of a layer; sub-classes are the kinds. Impossible sizes raise ValueError."""

    kind: ClassVar[str]
    arity: ClassVar[int] = 1
    more: ClassVar[bool] = False  # whether it may have more inputs than its arity
    differentiable: ClassVar[bool] = True  # whether gradients flow through it

    def shape(self, *sources: Shape) -> Shape:
        """Shape of the output, given those of the inputs; ValueError where they do not fit."""
        return sources[0]

    def parameters(self, source: Shape) -> int:
        """Number of trained values, given the shape of the (only) input."""
        return 0

    def lends_to(self, other: "Op") -> bool:
        """Whether a layer of another op may compute with the weights of one of this op."""
        return self == other


@dataclass(frozen=True, slots=True)
class Input(Op):
    """The image, (channels, height, width), or a sequence, (1, 1, places); the first layer of every graph."""

    kind: ClassVar[str] = "input"
    arity: ClassVar[int] = 0
    size: Shape

    def shape(self, *sources: Shape) -> Shape:
        if len(self.size) != 3:
            raise ValueError(f"an image is (channels, height, width), not {self.size}")
        at_least(1, size=self.size)
        return self.size


@dataclass(frozen=True, slots=True)
class Received(Op):
    """An output of an earlier stage; the first layers of every stage of a pipeline but the first."""

    kind: ClassVar[str] = "received"
    arity: ClassVar[int] = 0
    size: Shape
    trained: bool  # whether it depends on a parameter: its gradient is sent back

    def shape(self, *sources: Shape) -> Shape:
        at_least(1, size=self.size)
        return self.size


@dataclass(frozen=True, slots=True)
class Conv(Op):
    """Convolution, zero-padded; pairs are (vertical, horizontal)."""

    kind: ClassVar[str] = "convolution"
    channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    bias: bool = False

    def shape(self, *sources: Shape) -> Shape:
        channels, height, width = as_map(sources[0])
        at_least(1, channels=(self.channels,), groups=(self.groups,), dilation=self.dilation)
        if channels % self.groups or self.channels % self.groups:
            raise ValueError(f"{channels} to {self.channels} channels do not divide into {self.groups} groups")
        reach = (self.dilation[0] * (self.kernel[0] - 1) + 1, self.dilation[1] * (self.kernel[1] - 1) + 1)
        at_least(1, kernel=self.kernel)
        return (self.channels, *_windows((height, width), reach, self.stride, self.padding))

    def parameters(self, source: Shape) -> int:
        return self.channels * (source[0] // self.groups * prod(self.kernel) + self.bias)


@dataclass(frozen=True, slots=True)
class BatchNorm(Op):
    """Batch normalisation of a map, with a scale and an offset for each channel."""

    kind: ClassVar[str] = "batch norm"

    def shape(self, *sources: Shape) -> Shape:
        return as_map(sources[0])

    def parameters(self, source: Shape) -> int:
        return 2 * source[0]


@dataclass(frozen=True, slots=True)
class Relu(Op):
    """max(x, 0), element by element."""

    kind: ClassVar[str] = "relu"


@dataclass(frozen=True, slots=True)
class Add(Op):
    """Sum of two or more inputs of one shape, element by element."""

    kind: ClassVar[str] = "add"
    arity: ClassVar[int] = 2
    more: ClassVar[bool] = True

    def shape(self, *sources: Shape) -> Shape:
        if len(set(sources)) > 1:
            raise ValueError("inputs of different shapes: " + ", ".join(map(str, sources)))
        return sources[0]


@dataclass(frozen=True, slots=True)
class MaxPool(Op):
    """Largest value of each window; pairs are (vertical, horizontal)."""

    kind: ClassVar[str] = "max pool"
    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)

    def shape(self, *sources: Shape) -> Shape:
        channels, height, width = as_map(sources[0])
        at_least(1, kernel=self.kernel)
        if any(2 * edge > side for edge, side in zip(self.padding, self.kernel, strict=True)):
            raise ValueError(f"padding {self.padding} is more than half of the window {self.kernel}")
        return (channels, *_windows((height, width), self.kernel, self.stride, self.padding))


@dataclass(frozen=True, slots=True)
class GlobalPool(Op):
    """Mean of each channel: a map becomes a vector."""

    kind: ClassVar[str] = "global pool"

    def shape(self, *sources: Shape) -> Shape:
        return as_map(sources[0])[:1]


@dataclass(frozen=True, slots=True)
class Dense(Op):
    """Fully connected layer on a vector, or on each row of a table."""

    kind: ClassVar[str] = "dense"
    features: int
    bias: bool = True

    def shape(self, *sources: Shape) -> Shape:
        at_least(1, features=(self.features,))
        rows = sources[0][:1] if len(sources[0]) == 2 else _vector(sources[0])[1:]
        return (*rows, self.features)

    def parameters(self, source: Shape) -> int:
        return self.features * (source[-1] + self.bias)


@dataclass(frozen=True, slots=True)
class Softmax(Op):
    """Class probabilities, of a vector or of each row of a table; part of the loss, so only the last layer can be one.
    """

    kind: ClassVar[str] = "softmax"

    def shape(self, *sources: Shape) -> Shape:
        return sources[0] if len(sources[0]) == 2 else _vector(sources[0])


@dataclass(frozen=True, slots=True)
class Upsample(Op):
    """Nearest-neighbour upsampling of a map to (height, width)."""

    kind: ClassVar[str] = "upsample"
    size: Pair

    def shape(self, *sources: Shape) -> Shape:
        channels, *small = as_map(sources[0])
        if any(large < side for large, side in zip(self.size, small, strict=True)):
            raise ValueError("a map of {} x {} is larger than {} x {}".format(*small, *self.size))
        return (channels, *self.size)


def _windows(size: Pair, reach: Pair, stride: Pair, padding: Pair) -> Pair:
    at_least(1, stride=stride)
    at_least(0, padding=padding)
    padded = (size[0] + 2 * padding[0], size[1] + 2 * padding[1])
    if reach[0] > padded[0] or reach[1] > padded[1]:
        raise ValueError("a window of {} x {} exceeds the padded map of {} x {}".format(*reach, *padded))
    return (padded[0] - reach[0]) // stride[0] + 1, (padded[1] - reach[1]) // stride[1] + 1


def as_map(shape: Shape) -> Shape:
    """The shape, if it is one of a map; else ValueError."""
    if len(shape) != 3:
        raise ValueError(f"needs a map (channels, height, width), its input is {shape}")
    return shape


def _vector(shape: Shape) -> Shape:
    if len(shape) != 1:
        raise ValueError(f"needs a vector (features,), its input is {shape}")
    return shape


def at_least(least: int, **values: tuple[int, ...]) -> None:
    """Raise ValueError with the name of a value that is too small."""
    for name, value in values.items():
        if min(value) < least:
            raise ValueError(f"{name} must be at least {least}, not {', '.join(map(str, value))}")
