"""Residual networks as lists of layers, from the name of a network alone.

Source: He et al., Deep Residual Learning for Image Recognition (2015), table 1 and section 4.2; shortcuts of option B.
Bottleneck blocks of variant v1.5 have their stride in the 3x3 convolution (Goyal et al., 2017), those of v1 in the
first one. Images of up to 64 pixels a side meet a 3x3 convolution first, larger ones a 7x7 one and a pooling.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

Pair = tuple[int, int]

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_NARROW = (8, 14, 20, 32, 56)  # 6n + 2 layers: three stages of n blocks
_BOTTLENECK = 50  # layers, from which on blocks have three convolutions
_SMALL = 64


class Op(NamedTuple):
    """What a layer computes; only what its kind needs is used."""

    kind: str
    channels: int = 0
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    features: int = 0
    bias: bool = False


class Layer(NamedTuple):
    """A layer: its name, what it computes, and the layers that it reads."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    shares: str = ""


def known(network: str) -> bool:
    """Whether a network is one of these."""
    return _depth(network) in {*_BLOCKS, *_NARROW}


def layers(network: str, variant: str, image: Sequence[int], classes: int) -> tuple[Layer, ...]:
    """The layers of a network for images (height, width), from the one that reads `image` to the logits."""
    depth, small = _depth(network), min(image) <= _SMALL
    if depth in _NARROW:
        stages = [(16 << number, (depth - 2) // 6) for number in range(3)]
        return tuple(_network(stages, classes, small=True, bottleneck=False, first=False))
    stages = [(64 << number, blocks) for number, blocks in enumerate(_BLOCKS[depth])]
    return tuple(_network(stages, classes, small, depth >= _BOTTLENECK, variant == "v1"))


def _depth(network: str) -> int:
    digits = network.removeprefix("resnet")
    return int(digits) if network.startswith("resnet") and digits.isdecimal() else 0


def _network(stages: list[Pair], classes: int, small: bool, bottleneck: bool, first: bool) -> Iterator[Layer]:
    channels = stages[0][0]
    yield _conv("stem_conv", "image", channels, 3 if small else 7, 1 if small else 2)
    yield Layer("stem_norm", Op("batch norm"), ("stem_conv",))
    yield Layer("stem_relu", Op("relu"), ("stem_norm",))
    last = "stem_relu"
    if not small:
        last = "stem_pool"
        yield Layer(last, Op("max pool", kernel=(3, 3), stride=(2, 2), padding=(1, 1)), ("stem_relu",))
    for stage, (width, blocks) in enumerate(stages, 1):
        for block in range(1, blocks + 1):
            name, stride = f"stage{stage}_block{block}", 1 + (stage > 1 and block == 1)
            wide = 4 * width if bottleneck else width
            yield from _block(name, last, width, wide, stride, bottleneck, first, wide != channels or stride > 1)
            last, channels = f"{name}_relu{3 if bottleneck else 2}", wide
    yield Layer("pool", Op("global pool"), (last,))
    yield Layer("dense", Op("dense", features=classes, bias=True), ("pool",))


def _block(
    name: str, source: str, width: int, wide: int, stride: int, bottleneck: bool, first: bool, projected: bool
) -> Iterator[Layer]:
    sizes = [(width, 3, stride), (width, 3, 1)]
    if bottleneck:
        sizes = [(width, 1, stride if first else 1), (width, 3, 1 if first else stride), (wide, 1, 1)]
    last = source
    for number, (channels, kernel, step) in enumerate(sizes, 1):
        yield _conv(f"{name}_conv{number}", last, channels, kernel, step)
        yield Layer(f"{name}_norm{number}", Op("batch norm"), (f"{name}_conv{number}",))
        last = f"{name}_norm{number}"
        if number < len(sizes):
            yield Layer(f"{name}_relu{number}", Op("relu"), (last,))
            last = f"{name}_relu{number}"
    shortcut = source
    if projected:
        shortcut = f"{name}_shortcut_norm"
        yield _conv(f"{name}_shortcut_conv", source, wide, 1, stride)
        yield Layer(shortcut, Op("batch norm"), (f"{name}_shortcut_conv",))
    yield Layer(f"{name}_add", Op("add"), (last, shortcut))
    yield Layer(f"{name}_relu{len(sizes)}", Op("relu"), (f"{name}_add",))


def _conv(name: str, source: str, channels: int, kernel: int, stride: int) -> Layer:
    op = Op("convolution", channels, (kernel, kernel), (stride, stride), (kernel // 2, kernel // 2))
    return Layer(name, op, (source,))
