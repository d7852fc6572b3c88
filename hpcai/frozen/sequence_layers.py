"""Layers of decoders in plain NumPy, float64, one head and one place after the other.

Sources: RMS norm, Zhang and Sennrich (2019), equation 4; attention, Vaswani et al. (2017), equation 1; rotation of
queries and keys, Su et al., RoFormer (2021), equation 34, in pairs half a head apart; SwiGLU, Shazeer (2020), eq. 6.
"""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

_EPSILON, _BASE, _HEAD = 1e-6, 10000.0, 64


def embedding(weights: Doubles, symbols: Doubles) -> Doubles:
    """The rows of weights [symbols, features] of symbols [N, 1, 1, S]."""
    return np.stack([weights[sequence.ravel().astype(np.int64)] for sequence in symbols])


def root_mean_square_norm(scale: Doubles, x: Doubles) -> Doubles:
    """x[N, S, features] / the root mean square of each row, times the scale."""
    return x / np.sqrt(np.square(x).sum(-1, keepdims=True) / x.shape[-1] + _EPSILON) * scale


def gated(x: Doubles) -> Doubles:
    """a / (1 + exp(-a)) b of rows that have a and b side by side."""
    half = x.shape[-1] // 2
    return x[..., :half] / (1 + np.exp(-x[..., :half])) * x[..., half:]


def attention(x: Doubles) -> Doubles:
    """Attention of each place to itself and those before it, of queries, keys and values x[N, S, 3 d] side by side."""
    samples, places, width = x.shape[0], x.shape[1], x.shape[2] // 3
    found = np.empty((samples, places, width))
    for begin in range(0, width, _HEAD):
        queries, keys, values = (x[..., part * width + begin :][..., :_HEAD] for part in range(3))
        queries, keys = _turned(queries), _turned(keys)
        for place in range(places):
            scores = keys[:, : place + 1] @ queries[:, place, :, None] / np.sqrt(_HEAD)
            weights = np.exp(scores - scores.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            found[:, place, begin : begin + _HEAD] = (weights * values[:, : place + 1]).sum(1)
    return found


def _turned(heads: Doubles) -> Doubles:
    """heads[N, S, _HEAD] as complex numbers, of a feature and that half a head later, turned by their places."""
    half = _HEAD // 2
    speeds = _BASE ** (-np.arange(half) / half)
    turned = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * np.outer(np.arange(heads.shape[1]), speeds))
    return np.concatenate([turned.real, turned.imag], -1)
