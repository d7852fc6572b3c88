"""Sums of two and the RMS norms that read them, each pair by one custom kernel, which reads memory once.

Where there is no kernel for a type or device, both are computed one by one.
"""

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

from torch import Tensor

from hpcai.kernels.operators import sequences
from hpcai.models.module import Executable, Layers
from hpcai.models.sequence_layers import EPSILON, RmsNorm
from hpcai.networks import sequences as layers
from hpcai.networks.execution_plan import PlannedLayer
from hpcai.networks.layers import Add


def join_sums(network: Layers, names: Collection[str] | None = None) -> None:
    """Join the sums with the RMS norms of these names, or all, in the network's execution."""
    for place, (first, second) in enumerate(pairwise(network.plan)):
        if _is_pair(first, second) and (names is None or second.layer.name in names):
            (_, alone, *_), (norm, *_) = network.steps[place : place + 2]
            assert alone is not None, "a sum has no module"
            part: Any = network.get_submodule(norm)
            pair = AddedNorm(part, alone)
            network.steps[place] = _computed(network.steps[place], pair.add)
            network.steps[place + 1] = _computed(network.steps[place + 1], pair.normalised)


def _computed(step: Executable, function: Callable[..., Tensor]) -> Executable:
    """A step computed by a function."""
    name, _, sources, target, frees = step
    return name, function, sources, target, frees


def _is_pair(first: PlannedLayer, second: PlannedLayer) -> bool:
    is_sum = isinstance(first.layer.op, Add) and len(first.layer.inputs) == 2
    return is_sum and isinstance(second.layer.op, layers.RmsNorm) and second.layer.inputs == (first.layer.name,)


class AddedNorm:
    """A sum and the norm that is computed after it; `add` computes both where it can."""

    def __init__(self, norm: RmsNorm, alone: Callable[..., Tensor]) -> None:
        self._norm, self._alone = norm, alone
        self._rows: Tensor | None = None

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """x + other."""
        weight = self._norm.weight
        if not all(each.dtype == weight.dtype and sequences.normalises(each, weight) for each in (x, other)):
            return self._alone(x, other)
        total, self._rows = sequences.added_norm(x, other, weight, EPSILON)
        return total

    def normalised(self, total: Tensor) -> Tensor:
        """The norm of what `add` has returned."""
        rows, self._rows = self._rows, None
        found: Tensor = self._norm(total) if rows is None else rows
        return found
