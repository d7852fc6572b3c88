"""Residual networks as graphs (He et al., Deep Residual Learning for Image Recognition, 2015).

Convolutions have no bias, the dense layer has one, softmax is the last layer. Where the shape changes the shortcut is a
1x1 convolution with batch norm (their option B), also in the small-image family, for which the paper pads with zeros.
"""

from dataclasses import dataclass

from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import (
    Add,
    BatchNorm,
    Conv,
    Dense,
    GlobalPool,
    Input,
    MaxPool,
    Op,
    Pair,
    Relu,
    Shape,
    Softmax,
)

VARIANTS = ("v1", "v1.5")
LARGEST_SMALL_IMAGE = 64


@dataclass(frozen=True, slots=True)
class Stem:
    """The first convolution, and whether a pooling by 2 follows."""

    kernel: int
    stride: int
    pooled: bool


SMALL, LARGE = Stem(3, 1, False), Stem(7, 2, True)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Blocks and width of each stage; a bottleneck block puts out `expansion` times the width."""

    blocks: tuple[int, ...]
    widths: tuple[int, ...]
    bottleneck: bool = False
    small_images_only: bool = False

    def stem(self, image: Pair) -> Stem:
        """For images (height, width)."""
        return SMALL if min(image) <= LARGEST_SMALL_IMAGE or self.small_images_only else LARGE

    @property
    def expansion(self) -> int:
        return 4 if self.bottleneck else 1


_WIDE = (64, 128, 256, 512)
_NARROW = (16, 32, 64)

# Their Table 1, and section 4.2 (6n + 2 layers; resnet8 and resnet14 continue that series downwards).
ARCHITECTURES = {
    "resnet18": Architecture((2, 2, 2, 2), _WIDE),
    "resnet34": Architecture((3, 4, 6, 3), _WIDE),
    "resnet50": Architecture((3, 4, 6, 3), _WIDE, bottleneck=True),
    "resnet101": Architecture((3, 4, 23, 3), _WIDE, bottleneck=True),
    "resnet152": Architecture((3, 8, 36, 3), _WIDE, bottleneck=True),
    "resnet8": Architecture((1, 1, 1), _NARROW, small_images_only=True),
    "resnet14": Architecture((2, 2, 2), _NARROW, small_images_only=True),
    "resnet20": Architecture((3, 3, 3), _NARROW, small_images_only=True),
    "resnet32": Architecture((5, 5, 5), _NARROW, small_images_only=True),
    "resnet56": Architecture((9, 9, 9), _NARROW, small_images_only=True),
}


def resnet(architecture: Architecture, image: Pair, channels: int, classes: int, variant: str) -> Graph:
    """Graph for images (height, width).

    Variant v1 has a bottleneck stage's stride in its first 1x1 convolution, v1.5 in its first 3x3 (Goyal et al.,
    Accurate, Large Minibatch SGD, 2017, section 5.1); basic blocks have no such choice, the variants coincide.
    InputError for impossible sizes.
    """
    builder = GraphBuilder(Layer("image", Input((channels, *image))))
    trunk(builder, architecture, architecture.stem(image), variant)
    builder.add("pool", GlobalPool())
    builder.add("dense", Dense(classes))
    builder.add("softmax", Softmax())
    return Graph(tuple(builder.layers))


def trunk(builder: "GraphBuilder", architecture: Architecture, stem: Stem, variant: str) -> list[str]:
    """Add all but the head; the last layer of each stage."""
    _stem(builder, architecture, stem)
    ends = []
    for stage, (blocks, width) in enumerate(zip(architecture.blocks, architecture.widths, strict=True), start=1):
        for block in range(1, blocks + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            _block(builder, f"stage{stage}_block{block}", architecture, width, stride, variant)
        ends.append(builder.last)
    return ends


class GraphBuilder:
    """Builds a graph layer by layer; by default, a layer reads the layer before it."""

    def __init__(self, image: Layer) -> None:
        self.layers = [image]
        self.channels = {image.name: image.op.shape()[0]}

    @property
    def last(self) -> str:
        return self.layers[-1].name

    def shapes(self) -> dict[str, Shape]:
        """Of the layers so far, by name."""
        shapes: dict[str, Shape] = {}
        for layer in self.layers:
            shapes[layer.name] = layer.op.shape(*(shapes[name] for name in layer.inputs))
        return shapes

    def add(self, name: str, op: Op, *inputs: str, shares: str = "") -> str:
        """The name, for what reads it."""
        inputs = inputs or (self.last,)
        self.channels[name] = op.channels if isinstance(op, Conv) else self.channels[inputs[0]]
        self.layers.append(Layer(name, op, inputs, shares))
        return name

    def conv_norm(self, block: str, index: str, conv: Conv, *inputs: str) -> None:
        self.add(f"{block}_conv{index}", conv, *inputs)
        self.add(f"{block}_norm{index}", BatchNorm())


def _stem(builder: GraphBuilder, architecture: Architecture, stem: Stem) -> None:
    builder.conv_norm("stem", "", _conv(architecture.widths[0], stem.kernel, stem.stride))
    builder.add("stem_relu", Relu())
    if stem.pooled:
        builder.add("stem_pool", MaxPool((3, 3), (2, 2), (1, 1)))


def _block(builder: GraphBuilder, name: str, architecture: Architecture, width: int, stride: int, variant: str) -> None:
    source = builder.last
    wide = width * architecture.expansion
    convolutions = _bottleneck(width, wide, stride, variant) if architecture.bottleneck else _basic(width, stride)
    for index, conv in enumerate(convolutions, start=1):
        if index > 1:
            builder.add(f"{name}_relu{index - 1}", Relu())
        builder.conv_norm(name, str(index), conv)
    branch = builder.last
    if stride > 1 or builder.channels[source] != wide:
        builder.conv_norm(f"{name}_shortcut", "", _conv(wide, 1, stride), source)
        source = builder.last
    builder.add(f"{name}_add", Add(), branch, source)
    builder.add(f"{name}_relu{len(convolutions)}", Relu())


def _basic(width: int, stride: int) -> tuple[Conv, ...]:
    return _conv(width, 3, stride), _conv(width, 3)


def _bottleneck(width: int, wide: int, stride: int, variant: str) -> tuple[Conv, ...]:
    first, second = (stride, 1) if variant == "v1" else (1, stride)
    return _conv(width, 1, first), _conv(width, 3, second), _conv(wide, 1)


def _conv(channels: int, kernel: int, stride: int = 1) -> Conv:
    return Conv(channels, (kernel, kernel), (stride, stride), (kernel // 2, kernel // 2))
