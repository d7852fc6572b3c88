"""The distribution that initial weights are drawn from, and how far weights are off it.

Sources: convolutions, He et al., Delving Deep into Rectifiers (2015), equation 14 (variance 2 / (filters x window));
dense layers, variance 1 / inputs. Scales and running variances begin at 1, offsets and running means at 0. Of
detectors, layers of scores and offsets: Girshick, Fast R-CNN (2015), section 2.3; those of proposals begin at 0.
"""

from collections.abc import Iterator, Sequence
from math import inf, prod, sqrt

import numpy as np

from hpcai.frozen import decoders
from hpcai.frozen.layer_shapes import Layer, Shape, parameters
from hpcai.frozen.network import Doubles, Values

_CONSTANTS = {"bias": 0.0, "running_mean": 0.0, "running_var": 1.0, "weight": 1.0}
_SPREADS = {"boxes_scores": 0.01, "boxes_offsets": 0.001, "proposals_score": 0.0, "proposals_offset": 0.0}
_BEYOND_ONE = 0.31731050786291415  # share of normal draws beyond one standard deviation
_AT_ONE = 0.24197072451914337  # their density there


def standard_errors(
    layers: Sequence[Layer], image: Shape, values: Values, rounding: float = 0.0
) -> Iterator[tuple[str, float]]:
    """How far each tensor of `values` is off its distribution, by name, in standard errors.

    Infinite where a constant differs, or no layer has such a tensor. Of normal draws the largest of mean, variance and
    share beyond one standard deviation; `all weights`: the variance of all of them together. image: (channels, height,
    width). `values` may be parts of tensors, of some layers only; rounding: relative, of the weights.
    """
    ops, whole = {layer.name: layer.op for layer in layers}, parameters(layers, image)
    blocks = sum(layer.op.kind == "attention" for layer in layers)
    squares, count = 0.0, 0
    for name, found in values.items():
        layer, _, kind = name.rpartition(".")
        drawn_at_random = kind == "weight" and found.ndim > 1
        spread = _spread(layer, ops[layer].kind, whole[name], blocks) if drawn_at_random and name in whole else 0.0
        if name not in whole:
            yield name, inf
        elif not spread:
            constant = 0.0 if found.ndim > 1 else _CONSTANTS[kind]
            yield name, 0.0 if (found == constant).all() else inf
        else:
            drawn = found / spread
            squares, count = squares + float((drawn**2).sum()), count + drawn.size
            yield name, _off(drawn, rounding)
    if count:
        yield "all weights", abs(_of_squares(squares, count))


def _spread(layer: str, kind: str, shape: Shape, blocks: int) -> float:
    """Standard deviation of the weights, whose whole tensor has this shape; blocks: of a decoder, else 0."""
    if blocks:
        return decoders.spread(layer, blocks)
    for word, spread in _SPREADS.items():
        if layer.startswith(word):
            return spread
    return sqrt(2 / (shape[0] * prod(shape[2:]))) if kind == "convolution" else sqrt(1 / shape[1])


def _off(drawn: Doubles, rounding: float) -> float:
    """Largest of three statistics of standard normal draws, each in standard errors of its own."""
    n = drawn.size
    if not np.isfinite(drawn).all():
        return inf
    share = int(np.count_nonzero(np.abs(drawn) > 1)) / n
    # Draws close to one deviation may be rounded beyond it.
    beyond = max(0.0, abs(share - _BEYOND_ONE) - 2 * _AT_ONE * rounding)
    errors = sqrt(_BEYOND_ONE * (1 - _BEYOND_ONE) / n)
    mean = abs(float(drawn.sum())) / sqrt(n)
    return max(mean, abs(_of_squares(float((drawn**2).sum()), n)), beyond / errors)


def _of_squares(total: float, n: int) -> float:
    """Sum of squares of n draws as a normal one, by the cube root (Wilson and Hilferty, 1931)."""
    return float((np.cbrt(total / n) - (1 - 2 / (9 * n))) / sqrt(2 / (9 * n)))
