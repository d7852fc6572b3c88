"""What an optimiser step made of a tensor of parameters and of the state that the optimiser keeps for it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from hpcai.kernels.spec import UNIT_ROUNDOFF_FP32 as SINGLE  # an optimiser computes in fp32 what it stores shorter
from hpcai.update_rules.rule import Vector


@dataclass(frozen=True)
class State:
    """A state tensor of the optimiser before and after the step, flat, in float64, and the type it is kept in."""

    kind: torch.finfo
    before: Vector
    after: Vector


@dataclass(frozen=True)
class Tensor:
    """One tensor of parameters at one step, flat, in float64; `kind` describes the type that it is kept in.

    `own` is the gradient of this rank, `mean` that of the group; `spread` is the square root of the sum of the squared
    norms of the ranks' gradients, `size` the sum of the norms, each / Q.
    """

    name: str
    kind: torch.finfo
    decays: bool
    before: Vector
    after: Vector
    state: Mapping[str, State]
    own: Vector
    mean: Vector
    spread: float
    size: float

    @property
    def unit(self) -> float:
        """Unit roundoff of the type."""
        return self.kind.eps / 2

    def stored(self, vector: Vector) -> Vector:
        """These numbers as the type keeps them."""
        kept: Vector = torch.from_numpy(vector).to(getattr(torch, self.kind.dtype)).double().numpy()
        return kept

    def reach(self, exact: Vector, move: Vector, roundings: int) -> Vector:
        """How far stored weights may be from the exact ones, element by element.

        Half the spacing of the type's numbers; and before that is rounded: the operations that make the move, on a CPU
        in the type (a fused optimiser on a GPU goes on with numbers that are not rounded yet), and in fp32 the
        difference.
        """
        slack = (roundings * (self.unit + 2 * SINGLE) + self.unit**2) * np.abs(move)
        slack += (self.unit > SINGLE) * SINGLE * np.abs(exact)
        _, exponent = np.frexp(np.maximum(np.abs(exact) + slack, self.kind.tiny))
        slack += np.ldexp(self.unit, exponent - 1)
        return slack
