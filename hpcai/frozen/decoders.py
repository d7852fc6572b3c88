"""Decoder-only transformers as lists of layers, from the name of a network alone; the spread of their first weights.

Sources: Touvron et al., LLaMA (2023), section 2.2; Radford et al., GPT-2 (2019), section 2.3, and its published code.
"""

from collections.abc import Iterator
from math import sqrt
from re import fullmatch

from hpcai.frozen.residual_networks import Layer, Op

_SPREAD = 0.02
_BEFORE_SUMS = ("attention_output", "units_output")


def known(network: str) -> bool:
    """Whether a network is one of these."""
    return fullmatch(r"decoder\d+x\d+", network) is not None


def _sizes(network: str) -> tuple[int, int]:
    """Number of blocks, and width."""
    blocks, width = network.removeprefix("decoder").split("x")
    return int(blocks), int(width)


def layers(network: str, symbols: int) -> tuple[Layer, ...]:
    """The layers of a network, from the one that reads `symbols` to the logits of so many symbols."""
    blocks, width = _sizes(network)
    return tuple(_layers(blocks, width, symbols))


def _layers(blocks: int, width: int, symbols: int) -> Iterator[Layer]:
    yield Layer("embedding", Op("embedding", channels=symbols, features=width), ("symbols",))
    rows, hidden = "embedding", (8 * width + 191) // 192 * 64
    for number in range(1, blocks + 1):
        block = f"block{number}"
        yield Layer(f"{block}_attention_norm", Op("rms norm"), (rows,))
        yield _dense(f"{block}_projections", f"{block}_attention_norm", 3 * width)
        yield Layer(f"{block}_attention", Op("attention"), (f"{block}_projections",))
        yield _dense(f"{block}_attention_output", f"{block}_attention", width)
        yield Layer(f"{block}_attention_add", Op("add"), (f"{block}_attention_output", rows))
        yield Layer(f"{block}_units_norm", Op("rms norm"), (f"{block}_attention_add",))
        yield _dense(f"{block}_units", f"{block}_units_norm", 2 * hidden)
        yield Layer(f"{block}_units_gated", Op("swiglu"), (f"{block}_units",))
        yield _dense(f"{block}_units_output", f"{block}_units_gated", width)
        rows = f"{block}_units_add"
        yield Layer(rows, Op("add"), (f"{block}_units_output", f"{block}_attention_add"))
    yield Layer("norm", Op("rms norm"), (rows,))
    yield Layer("output", Op("dense", features=symbols), ("norm",), "embedding")


def _dense(name: str, source: str, features: int) -> Layer:
    return Layer(name, Op("dense", features=features), (source,))


def spread(layer: str, blocks: int) -> float:
    """Standard deviation of the first weights of a layer of a network of so many blocks."""
    return _SPREAD / sqrt(2 * blocks) if layer.partition("_")[2] in _BEFORE_SUMS else _SPREAD
