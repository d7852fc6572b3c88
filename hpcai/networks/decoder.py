"""Decoder-only transformers as graphs: a language model of bytes.

Blocks as in Touvron et al., LLaMA, 2023, section 2.2: RMS norm before each part, rotary positions, SwiGLU of 8/3 the
width. No layer has a bias. The output layer has the weights of the embedding. Weights begin as in Radford et al.,
Language Models are Unsupervised Multitask Learners (GPT-2), 2019: deviation 0.02, of layers before a sum divided by the
square root of the number of sums.
"""

from dataclasses import dataclass
from math import sqrt

from hpcai.errors import InputError
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Add, Input, Op, Softmax
from hpcai.networks.sequences import CausalAttention, Embedding, GaussianDense, RmsNorm, SwiGlu

DEVIATION = 0.02
MULTIPLE = 64  # of which the hidden width of a block is one


@dataclass(frozen=True, slots=True)
class Decoder:
    """Number of blocks, and width of the rows between them."""

    blocks: int
    width: int

    @property
    def hidden(self) -> int:
        """Width within SwiGLU: 8/3 of the width, rounded up."""
        return -(-8 * self.width // (3 * MULTIPLE)) * MULTIPLE


# The first one is for tests.
DECODERS = {
    f"decoder{blocks}x{width}": Decoder(blocks, width)
    for blocks, width in ((2, 64), (4, 128), (6, 256), (12, 512), (12, 768), (24, 1024), (32, 4096))
}


def decoder(sizes: Decoder, places: int, symbols: int) -> Graph:
    """Graph for sequences of `places` symbols out of `symbols`; its output is what may follow each place."""
    if places < 1 or symbols < 2:
        raise InputError(f"a sequence of {places} out of {symbols} symbols; allowed: at least 1 out of at least 2")
    layers = [
        Layer("symbols", Input((1, 1, places))),
        Layer("embedding", Embedding(symbols, sizes.width, DEVIATION), ("symbols",)),
    ]
    for number in range(1, sizes.blocks + 1):
        _block(layers, f"block{number}", sizes)
    output = GaussianDense(symbols, bias=False, deviation=DEVIATION)
    layers += [
        Layer("norm", RmsNorm(), (layers[-1].name,)),
        Layer("output", output, ("norm",), shares="embedding"),
        Layer("softmax", Softmax(), ("output",)),
    ]
    return Graph(tuple(layers))


def _block(layers: list[Layer], name: str, sizes: Decoder) -> None:
    """Attention, then the gated units; each reads a norm of the rows so far and is added to them."""
    width, of_sums = sizes.width, DEVIATION / sqrt(2 * sizes.blocks)
    attention: list[tuple[str, Op]] = [
        ("attention_norm", RmsNorm()),
        ("projections", GaussianDense(3 * width, bias=False, deviation=DEVIATION)),
        ("attention", CausalAttention()),
        ("attention_output", GaussianDense(width, bias=False, deviation=of_sums)),
    ]
    units: list[tuple[str, Op]] = [
        ("units_norm", RmsNorm()),
        ("units", GaussianDense(2 * sizes.hidden, bias=False, deviation=DEVIATION)),
        ("units_gated", SwiGlu()),
        ("units_output", GaussianDense(width, bias=False, deviation=of_sums)),
    ]
    for part, ops in (("attention", attention), ("units", units)):
        rows = last = layers[-1].name
        for kind, op in ops:
            layers.append(Layer(f"{name}_{kind}", op, (last,)))
            last = layers[-1].name
        layers.append(Layer(f"{name}_{part}_add", Add(), (last, rows)))


