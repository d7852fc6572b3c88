"""The gradients of a replayed step as they are after clipping, in float64."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isfinite, sqrt

import numpy as np
from mpi4py import MPI

from hpcai.train.step_tensors import Tensor

Tensors = Iterator[Tensor]


def clipped(made: Callable[[], Tensors], most: float, allowance: float, parts: MPI.Comm) -> Tensors:
    """The tensors of a step, which `made` yields anew at each call, with gradients clipped to the norm `most`; 0: not.

    allowance: share of a tensor's gradient by which a repetition may differ. Collective over the parts of a replica,
    which have the same norm, and over the ranks that `made` needs.
    """
    if not most:
        return made()
    norm, error = _norm(made(), allowance, parts)
    factor = min(1.0, most / norm) if isfinite(norm) and norm else 1.0
    uncertain = error / norm if isfinite(norm) and norm + error > most else 0.0
    return (_scaled(tensor, factor, uncertain) for tensor in made())


def _norm(tensors: Tensors, allowance: float, parts: MPI.Comm) -> tuple[float, float]:
    """Norm of the mean gradient over all tensors, and by how much a repetition's may differ."""
    sums = np.zeros(2)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in tensors:
            if t.counted:
                sums += np.array([t.mean @ t.mean, (allowance * t.spread + t.sent_error) ** 2])
    square, error = parts.allreduce(sums)
    return sqrt(square) if square >= 0 else float("nan"), sqrt(error) if error >= 0 else float("nan")


def _scaled(t: Tensor, factor: float, uncertain: float) -> Tensor:
    """A tensor with gradients times a factor of which a share is uncertain."""
    error = factor * (t.sent_error + uncertain * float(np.linalg.norm(t.mean)))
    return replace(
        t,
        local_gradient=factor * t.local_gradient,
        mean=factor * t.mean,
        spread=factor * t.spread,
        size=factor * t.size,
        sent_error=error,
    )
