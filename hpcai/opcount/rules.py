"""The three rules: operations of one layer for one image, (forward, backward).

A rule counts what its match lists; every other kind of layer counts 0. Bias additions, padding and anything computed
twice earn nothing. H, W are height and width, K^2 stands for Kh * Kw.
"""

from dataclasses import dataclass
from math import prod

from hpcai.networks.graph import Layer
from hpcai.networks.layers import Add, BatchNorm, Conv, Dense, GlobalPool, MaxPool, Relu, Shape, Softmax

# Weights of the rule aiperf: operations that one division, one exponential count as.
DIVIDE = 4
EXP = 8


@dataclass(frozen=True, slots=True)
class Seen:
    """A layer and what it sees: shapes of its inputs and of its output, and whether its input needs a gradient, which
    is so when a layer with parameters lies upstream.
    """

    layer: Layer
    sources: tuple[Shape, ...]
    output: Shape
    input_gradient: bool

    @property
    def source(self) -> Shape:
        """Shape of the first input."""
        return self.sources[0]


def model(seen: Seen) -> tuple[int, int]:
    """2 operations for each multiply-add of convolutions and matrix products; nothing else is listed.

    Backward: as much for the gradient of the weights, and again for that of the input where there is one.
    """
    match seen.layer.op:
        case Conv() | Dense():
            forward = 2 * _multiply_adds(seen)
            return forward, forward + forward * seen.input_gradient
    return 0, 0


def aiperf(seen: Seen) -> tuple[int, int]:
    """AIPerf (2021), Tables I and II; global pool and softmax as in its published code.

    Weights: multiply-add 2; add, multiply, compare 1; divide 4; exp 8. An update of the weights is counted per image,
    that of shared ones once.
    """
    match seen.layer.op:
        case Conv() as op:
            forward = 2 * _multiply_adds(seen)  # 2 K^2 Ci/groups Ho Wo Co
            update = 2 * prod(op.kernel) * (seen.source[0] // op.groups) * op.channels  # 2 K^2 Ci/groups Co
            return forward, forward + forward * seen.input_gradient + update * (not seen.layer.shares)
        case Dense() as op:
            forward = 2 * _multiply_adds(seen)  # 2 Ci Co
            update = 2 * (seen.source[-1] + op.bias) * op.features  # 2 (Ci + 1) Co, the 1 being the bias
            return forward, forward + forward * seen.input_gradient + update * (not seen.layer.shares)
        case BatchNorm():
            return 7 * prod(seen.source), 36  # 7 Hi Wi Ci; backward 36 a layer, whatever its size
        case Relu():
            return prod(seen.output), 0  # Ho Wo Co comparisons
        case Add():
            return (len(seen.layer.inputs) - 1) * prod(seen.output), 0  # Ho Wo Co for each addition of two
        case MaxPool() as op:
            return prod(op.kernel) * prod(seen.output), 0  # K^2 Ho Wo Co comparisons
        case GlobalPool():
            channels, height, width = seen.source
            means = (height * width - 1) * channels + DIVIDE * channels  # Hi Wi - 1 additions and a division, Ci times
            return means, 0
        case Softmax():
            classes = seen.output[0]
            return EXP * classes + (classes - 1) + DIVIDE * classes, 0  # C exponentials, C - 1 additions, C divisions
    return 0, 0


def hpcai500(seen: Seen) -> tuple[int, int]:
    """HPC AI500 V3.0 (2022), Table 3: softmax is not in it. Backward is twice the forward: ours, the paper has none."""
    forward = _hpcai500_forward(seen)
    return forward, 2 * forward


def _hpcai500_forward(seen: Seen) -> int:
    match seen.layer.op:
        case Conv():
            return 2 * _multiply_adds(seen)  # 2 K^2 Cin H W Cout / groups
        case Dense():
            return _multiply_adds(seen)  # FLin FLout: the paper has no factor 2 here
        case Relu():
            return prod(seen.output)  # element-wise: Cout H W
        case Add():
            return (len(seen.layer.inputs) - 1) * prod(seen.output)  # element-wise, for each addition of two
        case BatchNorm():
            return prod(seen.output)  # normalisation: Cin H W, H and W of the output
        case MaxPool() | GlobalPool():
            return prod(seen.source)  # pooling: Cin H W, H and W of the input
    return 0


def _multiply_adds(seen: Seen) -> int:
    """Each output element sums over K^2 Ci / groups products (dense: over Ci)."""
    match seen.layer.op:
        case Conv() as op:
            return prod(op.kernel) * (seen.source[0] // op.groups) * prod(seen.output)
        case _:
            return seen.source[-1] * prod(seen.output)
