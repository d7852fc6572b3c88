"""Updates of one weight tensor with a layer-wise rate: LARS and LAMB.

Sources: You, Gitman, Ginsburg, Large Batch Training of Convolutional Networks, 2017, algorithm 1 (LARS); You et al.,
Large Batch Optimization for Deep Learning: Training BERT in 76 Minutes, 2020, algorithm 2 (LAMB).
"""

from typing import NamedTuple


class Lars(NamedTuple):
    """Hyper-parameters of LARS. `trust`: 0 for a tensor whose rate is not adapted; `scale`: of the gradients given."""

    rate: float
    decay: float
    momentum: float
    trust: float
    scale: float = 1.0


class Lamb(NamedTuple):
    """Hyper-parameters of LAMB in update `number` (from 1). `adapted`: whether the tensor's rate is adapted."""

    rate: float
    decay: float
    beta1: float
    beta2: float
    epsilon: float
    number: int
    adapted: bool
    scale: float = 1.0
