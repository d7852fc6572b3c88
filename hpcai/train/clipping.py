"""Clipping of gradients: one whose norm over all tensors is above CLIP is scaled to that norm.

Pascanu et al., On the Difficulty of Training Recurrent Neural Networks, 2013, algorithm 1.
"""

import torch
from torch import Tensor

from hpcai.train.layerwise import Shards

OPTION = "clip"  # of all groups of an optimiser's parameters


class Clipping:
    """Clips the gradients that an optimiser is about to use; never synchronises.

    `shards`: of all ranks that share a model; None where a rank has all weights. Otherwise clipping is collective.
    """

    shards: Shards | None = None

    def __init__(self, optimiser: torch.optim.Optimizer, most: float) -> None:
        """most: the largest norm, above 0."""
        self._groups = optimiser.param_groups
        for group in self._groups:
            group[OPTION] = most

    @torch.no_grad()
    def clip(self, scale: Tensor | None) -> None:
        """Scale the gradients in place; they are `scale` times as long as those of the loss, None for 1."""
        weights = [weight for group in self._groups for weight in group["params"] if weight.grad is not None]
        gradients = [weight.grad for weight in weights]
        squares = torch.stack(torch._foreach_norm(gradients, 2, torch.float32)).double().square()
        square = squares.sum() if self.shards is None else self.shards.sum(weights, squares)
        norm = square.sqrt() if scale is None else square.sqrt() / scale
        torch._foreach_mul_(gradients, (self._groups[0][OPTION] / norm).clamp(max=1.0).float())
