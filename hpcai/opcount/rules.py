"""Rules of operation counts: operations of one layer for one image, (forward, backward).

A rule counts the kinds of layers in its match; every other kind counts 0. Bias additions, padding and recomputation are
not counted. H, W are height and width, K^2 stands for Kh * Kw.
"""

from dataclasses import dataclass
from math import prod

from hpcai.networks.graph import Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, MaxPool, Relu, Shape, Softmax
from hpcai.networks.sequences import CausalAttention

# Weights of the rule aiperf: operations that one division, one exponential count as.
DIVIDE = 4
EXP = 8


@dataclass(frozen=True, slots=True)
class ShapedLayer:
    """A layer with the shapes of its inputs and its output.

    `input_gradient`: whether its input needs a gradient, because a layer with parameters lies upstream.
    """

    layer: Layer
    sources: tuple[Shape, ...]
    output: Shape
    input_gradient: bool

    @property
    def source(self) -> Shape:
        """Shape of the first input."""
        return self.sources[0]


def model(shaped: ShapedLayer) -> tuple[int, int]:
    """2 operations for each multiply-add of convolutions and matrix products; nothing else is listed.

    Backward: the same for the weight gradient, and again for the input gradient where there is one; of the products of
    attention the same for each of both operands. Of attention only the half counts that the mask leaves.
    """
    match shaped.layer.op:
        case Conv() | Dense():
            forward = 2 * _multiply_adds(shaped)
            return forward, forward + forward * shaped.input_gradient
        case CausalAttention():
            places, features = shaped.output
            forward = 2 * 2 * (places * (places + 1) // 2) * features  # queries by keys, weights by values
            return forward, 2 * forward * shaped.input_gradient
    return 0, 0


def aiperf(shaped: ShapedLayer) -> tuple[int, int]:
    """AIPerf (2021), Tables I and II; global pool and softmax as in its published code.

    Weights: multiply-add 2; add, multiply, compare 1; divide 4; exp 8. An update of the weights is counted per image,
    that of shared ones once.
    """
    match shaped.layer.op:
        case Conv() as op:
            forward = 2 * _multiply_adds(shaped)  # 2 K^2 Ci/groups Ho Wo Co
            update = 2 * prod(op.kernel) * (shaped.source[0] // op.groups) * op.channels  # 2 K^2 Ci/groups Co
            return forward, forward + forward * shaped.input_gradient + update * (not shaped.layer.shares)
        case Dense() as op:
            forward = 2 * _multiply_adds(shaped)  # 2 Ci Co
            update = 2 * (shaped.source[-1] + op.bias) * op.features  # 2 (Ci + 1) Co, the 1 being the bias
            return forward, forward + forward * shaped.input_gradient + update * (not shaped.layer.shares)
        case BatchNorm():
            return 7 * prod(shaped.source), 36  # 7 Hi Wi Ci; backward 36 a layer, whatever its size
        case Relu():
            return prod(shaped.output), 0  # Ho Wo Co comparisons
        case Add():
            return (len(shaped.layer.inputs) - 1) * prod(shaped.output), 0  # Ho Wo Co for each addition of two
        case MaxPool() as op:
            return prod(op.kernel) * prod(shaped.output), 0  # K^2 Ho Wo Co comparisons
        case GlobalPool():
            channels, height, width = shaped.source
            means = (height * width - 1) * channels + DIVIDE * channels  # Hi Wi - 1 additions and a division, Ci times
            return means, 0
        case Softmax():
            *rows, classes = shaped.output
            row = EXP * classes + (classes - 1) + DIVIDE * classes  # C exponentials, C - 1 additions, C divisions
            return prod(rows) * row, 0
    return 0, 0


def hpcai500(shaped: ShapedLayer) -> tuple[int, int]:
    """HPC AI500 V3.0 (2022), Table 3: softmax is not in it. Backward, which the paper lacks, is twice the forward."""
    forward = _hpcai500_forward(shaped)
    return forward, 2 * forward


def _hpcai500_forward(shaped: ShapedLayer) -> int:
    match shaped.layer.op:
        case Conv():
            return 2 * _multiply_adds(shaped)  # 2 K^2 Cin H W Cout / groups
        case Dense():
            return _multiply_adds(shaped)  # FLin FLout: the paper has no factor 2 here
        case Relu():
            return prod(shaped.output)  # element-wise: Cout H W
        case Add():
            return (len(shaped.layer.inputs) - 1) * prod(shaped.output)  # element-wise, for each addition of two
        case BatchNorm():
            return prod(shaped.output)  # normalisation: Cin H W, H and W of the output
        case MaxPool() | GlobalPool():
            return prod(shaped.source)  # pooling: Cin H W, H and W of the input
    return 0


def _multiply_adds(shaped: ShapedLayer) -> int:
    """Each output element sums over K^2 Ci / groups products (dense: over Ci)."""
    match shaped.layer.op:
        case Conv() as op:
            return prod(op.kernel) * (shaped.source[0] // op.groups) * prod(shaped.output)
        case _:
            return shaped.source[-1] * prod(shaped.output)
