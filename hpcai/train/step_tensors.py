"""One tensor of parameters and its optimiser state, before and after an optimiser step."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from hpcai.kernels.arithmetic import UNIT_ROUNDOFF_FP32 as SINGLE  # optimisers compute in fp32 and store in 16 bits
from hpcai.train.sent_gradients import Carried
from hpcai.update_rules.rule import Vector


@dataclass(frozen=True)
class State:
    """An optimiser state tensor before and after the step: flat, float64; `kind` is its stored type."""

    kind: torch.finfo
    before: Vector
    after: Vector


@dataclass(frozen=True)
class Tensor:
    """One parameter tensor of a step: flat, float64; `kind` is its stored type.

    `local_gradient` is this rank's gradient, `mean` the group's mean gradient; `spread` is the square root of the sum
    of the squared norms of the ranks' gradients / Q, `size` the sum of their norms / Q. `sent_error` is the largest
    norm of the error of the mean by the wire type, `overflow` whether it has no finite numbers there, and `carried` the
    rounding errors that the mean contains and lacks, of a wire type that keeps them. `divided`: whether it is a shard
    of a parameter tensor, of which other ranks have the rest; `counted`: whether it is the one that counts, of copies
    on several ranks.
    """

    name: str
    kind: torch.finfo
    decays: bool
    before: Vector
    after: Vector
    state: Mapping[str, State]
    local_gradient: Vector
    mean: Vector
    spread: float
    size: float
    sent_error: float = 0.0
    overflow: bool = False
    carried: Carried | None = None
    divided: bool = False
    counted: bool = True

    @property
    def unit(self) -> float:
        """Unit roundoff of the type."""
        return self.kind.eps / 2

    def stored(self, vector: Vector) -> Vector:
        """The vector rounded to the stored type."""
        kept: Vector = torch.from_numpy(vector).to(getattr(torch, self.kind.dtype)).double().numpy()
        return kept

    def rounding_bound(self, exact: Vector, move: Vector, roundings: int, weight_roundings: int = 1) -> Vector:
        """Bound of the rounding error of stored weights, element by element.

        Half the spacing of the type's numbers, as often as the weight itself is rounded; and before that is rounded:
        the operations that make the move, on a CPU in the type (a fused optimiser on a GPU goes on with numbers that
        are not rounded yet), and in fp32 the difference. Below the type's smallest normal number the spacing is
        constant.
        """
        slack = (roundings * (self.unit + 2 * SINGLE) + self.unit**2) * np.maximum(np.abs(move), self.kind.tiny)
        slack += (self.unit > SINGLE) * SINGLE * np.abs(exact)
        _, exponent = np.frexp(np.maximum(np.abs(exact) + slack, self.kind.tiny))
        slack += weight_roundings * np.ldexp(self.unit, exponent - 1)
        return slack
