"""Kinds of layers that only networks of sequences have: embedding, RMS norm, causal attention, gated units.

Their inputs and outputs are tables (places, features): a row for each place of the sequence.
"""

from dataclasses import dataclass
from typing import ClassVar

from hpcai.networks.layers import Dense, Op, Shape, as_map, at_least

HEAD = 64  # features of an attention head


@dataclass(frozen=True, slots=True)
class GaussianDense(Dense):
    """A dense layer whose weights begin as normal draws of this standard deviation."""

    deviation: float = 0.02


@dataclass(frozen=True, slots=True)
class Embedding(Op):
    """A row of `features` weights for each symbol of the sequence, of (1, 1, places) symbols below `vocabulary`.

    A dense layer without bias from `features` to `vocabulary` may share its weights (Press and Wolf, Using the Output
    Embedding to Improve Language Models, 2017).
    """

    kind: ClassVar[str] = "embedding"
    vocabulary: int
    features: int
    deviation: float = 0.02

    def shape(self, *sources: Shape) -> Shape:
        at_least(1, sizes=(self.vocabulary, self.features))
        channels, rows, places = as_map(sources[0])
        if channels * rows != 1:
            raise ValueError(f"a sequence is (1, 1, places), not {sources[0]}")
        return (places, self.features)

    def parameters(self, source: Shape) -> int:
        return self.vocabulary * self.features

    def lends_to(self, other: Op) -> bool:
        return other == GaussianDense(self.vocabulary, bias=False, deviation=self.deviation)


@dataclass(frozen=True, slots=True)
class RmsNorm(Op):
    """Each row / its root mean square, times a scale for each feature (Zhang and Sennrich, 2019, equation 4)."""

    kind: ClassVar[str] = "rms norm"

    def shape(self, *sources: Shape) -> Shape:
        return as_table(sources[0])

    def parameters(self, source: Shape) -> int:
        return source[-1]


@dataclass(frozen=True, slots=True)
class CausalAttention(Op):
    """Scaled dot-product attention of each place to itself and those before it, in heads of HEAD features.

    Reads queries, keys and values side by side, of which queries and keys are rotated by their places (Vaswani et al.,
    Attention Is All You Need, 2017, equation 1; Su et al., RoFormer, 2021, equation 34).
    """

    kind: ClassVar[str] = "attention"
    sections: ClassVar[int] = 3  # side by side in its input
    unit: ClassVar[int] = HEAD  # neighbouring columns of a section that only occur together

    def shape(self, *sources: Shape) -> Shape:
        places, features = as_table(sources[0])
        if features % (3 * HEAD):
            raise ValueError(f"needs queries, keys and values of whole heads of {HEAD}, its input has {features}")
        return (places, features // 3)


@dataclass(frozen=True, slots=True)
class SwiGlu(Op):
    """silu(a) b of rows that have a and b side by side (Shazeer, GLU Variants Improve Transformer, 2020, eq. 6)."""

    kind: ClassVar[str] = "swiglu"
    sections: ClassVar[int] = 2
    unit: ClassVar[int] = 1

    def shape(self, *sources: Shape) -> Shape:
        places, features = as_table(sources[0])
        if features % 2:
            raise ValueError(f"needs two halves, its input has {features} features")
        return (places, features // 2)


BY_SECTION = CausalAttention | SwiGlu  # each output column needs its columns of each section only
KINDS: tuple[type[Op], ...] = (Embedding, RmsNorm, CausalAttention, SwiGlu)


def as_table(shape: Shape) -> Shape:
    """The shape, if it is one of a table; else ValueError."""
    if len(shape) != 2:
        raise ValueError(f"needs a table (places, features), its input is {shape}")
    return shape
