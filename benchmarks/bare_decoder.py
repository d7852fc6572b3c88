"""What a user would write instead: a decoder of bytes and its training loop in plain PyTorch, with nothing of hpcai."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

SYMBOLS, HEAD = 256, 64


class Block(nn.Module):
    """Causal attention with rotary positions, then SwiGLU; each behind an RMS norm and beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = -(-8 * width // 192) * 64
        self.attention_norm, self.units_norm = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.projections = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width, bias=False)
        self.units = nn.Linear(width, 2 * hidden, bias=False)
        self.units_output = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        samples, places, width = x.shape
        parts = self.projections(self.attention_norm(x)).view(samples, places, 3, width // HEAD, HEAD)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        queries, keys = (rotated(each, cosines, sines) for each in (queries, keys))
        found = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.attention_output(found.transpose(1, 2).reshape(x.shape))
        gate, units = self.units(self.units_norm(x)).chunk(2, -1)
        made: Tensor = x + self.units_output(functional.silu(gate) * units)
        return made


def rotated(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary positions, halves rotated together."""
    first, second = heads.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, first * sines + second * cosines], -1)


class Decoder(nn.Module):
    """Blocks between an embedding and an output layer with the same weights."""

    def __init__(self, blocks: int, width: int, places: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        frequencies = 10000.0 ** (-torch.arange(HEAD // 2) / (HEAD // 2))
        angles = torch.arange(places)[:, None] * frequencies
        self.cosines, self.sines = angles.cos(), angles.sin()

    def forward(self, x: Tensor) -> Tensor:
        rows = self.embedding(x)
        for block in self.blocks:
            rows = block(rows, self.cosines, self.sines)
        return functional.linear(self.norm(rows), self.embedding.weight)


def loop(blocks: int, width: int, places: int, batch: int) -> Callable[[int], None]:
    """A training loop on one batch that is in memory; the result runs a number of steps."""
    model = Decoder(blocks, width, places)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    symbols = torch.randint(0, SYMBOLS, (batch, places + 1))

    def train(steps: int) -> None:
        for _ in range(steps):
            logits = model(symbols[:, :-1])
            functional.cross_entropy(logits.flatten(0, 1), symbols[:, 1:].flatten()).backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    return train
