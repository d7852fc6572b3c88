"""Torch modules of the layers of `hpcai.networks.sequences`."""

from functools import lru_cache
from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

from hpcai.networks.sequences import HEAD

EPSILON = 1e-6  # of RMS norm
BASE = 10000.0  # of the wavelengths of rotary positions (RoFormer, section 3.2.2)


class GaussianLinear(nn.Linear):
    """A dense layer without bias that knows the standard deviation of its first weights."""

    def __init__(self, features: int, outputs: int, deviation: float) -> None:
        super().__init__(features, outputs, bias=False, device="meta")
        self.deviation = deviation


class SharedEmbedding(GaussianLinear):
    """Weights [symbols, features] read in two ways: by the embedding and by the output layer.

    Symbols float or int [N, 1, 1, S] become their rows [N, S, features], in the type of products, in which all rows
    between layers are; rows [N, S, features] their products with all symbols.
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.rows(x) if self.looks_up(x) else super().forward(x)

    def rows(self, symbols: Tensor) -> Tensor:
        """The rows of symbols."""
        found, device = functional.embedding(symbols[:, 0, 0].long(), self.weight), symbols.device.type
        mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        return found.to(torch.get_autocast_dtype(device)) if mixed else found

    @staticmethod
    def looks_up(x: Tensor) -> bool:
        """Whether x are symbols."""
        return x.ndim == 4


class RmsNorm(nn.Module):
    """Rows / their root mean square, times a scale; computed in the type of the scale, in that of the rows returned."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features, device="meta"))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.to(self.weight.dtype)
        return functional.rms_norm(rows, self.weight.shape, self.weight, EPSILON).to(x.dtype)


class CausalAttention(nn.Module):
    """Attention of each place to itself and those before it; queries and keys are rotated by their places."""

    def forward(self, x: Tensor) -> Tensor:
        """x[N, S, 3 d]: queries, keys and values side by side; returns [N, S, d]."""
        samples, places, features = x.shape
        heads = x.view(samples, places, 3, features // (3 * HEAD), HEAD).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind()  # their gradients are stacked; those of selections are added to zeros
        found = functional.scaled_dot_product_attention(rotated(queries), rotated(keys), values, is_causal=True)
        return found.transpose(1, 2).reshape(samples, places, features // 3)

    @staticmethod
    def operations(x: Tensor) -> int:
        """Operations of a forward pass by rule `model`: both products, of the half that is not masked."""
        samples, places, features = x.shape
        return 2 * samples * places * (places + 1) * (features // 3)


def rotated(heads: Tensor) -> Tensor:
    """heads[N, h, S, HEAD] with each pair of features i, i + HEAD/2 rotated by place x BASE^(-2 i / HEAD)."""
    cosines, sines = rotations(heads.shape[2], heads.dtype, heads.device)
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


@lru_cache(maxsize=64)
def rotations(places: int, kind: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [S, HEAD / 2] of the angles, computed in float64."""
    with torch.inference_mode(False):
        frequencies = torch.exp(torch.arange(HEAD // 2, dtype=torch.float64) * (-2 * log(BASE) / HEAD))
        angles = torch.arange(places, dtype=torch.float64)[:, None] * frequencies
        return angles.cos().to(device, kind), angles.sin().to(device, kind)


def gated(x: Tensor) -> Tensor:
    """silu(a) b of rows that have a and b side by side."""
    first, second = x.chunk(2, -1)
    return functional.silu(first) * second
