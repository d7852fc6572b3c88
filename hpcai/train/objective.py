"""Training objectives: the loss of an optimiser step, by task."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from hpcai.data.philox import Purpose, below, stream

Network = Callable[..., Tensor]
DRAWS = 1 << 30


class Objective(Protocol):
    """Loss of a batch in an optimiser step (from 0, over all epochs): a pure function of the arguments and the weights.

    So a step can be replayed. Random numbers are drawn by a counter-based generator.
    """

    def __call__(self, network: Network, x: Tensor, y: Tensor, step: int) -> Tensor:
        """The loss, a scalar on the device; does not synchronise."""


@dataclass(frozen=True)
class Classification:
    """Cross entropy of the logits, float[N, classes], with the labels, int64[N]; `smoothing` is the label smoothing.

    Of sequences, of the logits float[N, S, classes] of all places with the labels int64[N, S].
    """

    smoothing: float

    def __call__(self, network: Network, x: Tensor, y: Tensor, step: int) -> Tensor:
        return cross_entropy(network(x).flatten(0, -2), y.flatten(), label_smoothing=self.smoothing)


@dataclass(frozen=True)
class Detection:
    """The sum of a detector's losses; anchors and regions are sampled by (seed, model, step)."""

    seed: int
    model: int

    def __call__(self, network: Network, x: Tensor, y: Tensor, step: int) -> Tensor:
        drawn = below(DRAWS, self.seed, stream(Purpose.SAMPLED_BOXES, self.model), np.array([step]))
        return network(x, y, int(drawn[0])).sum()
