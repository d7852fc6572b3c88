"""Interface of an update rule, and the terms of its float64 formula."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import reduce
from math import hypot
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
SINGLE = 4  # bytes of fp32
SCRATCH = 4  # gradients, weights, moves, and a product of them


@dataclass(frozen=True)
class BeforeStep:
    """One parameter tensor before an optimiser step, and its mean gradient over the group; flat, in float64.

    `error`: largest norm of an error of the gradient, since a repetition rounds otherwise. `state` has the optimiser's
    tensors by their names, zeros before the first step. `number` counts the updates from 1
    (steps left out because of overflow are not counted). `decays`: whether weight decay acts on the tensor. Where all
    this is a shard of a tensor, `elsewhere` has the `norms` of its other shards together, by their names.
    """

    weights: Vector
    gradient: Vector
    error: float
    state: Mapping[str, Vector]
    rate: float
    number: int
    decays: bool
    elsewhere: Mapping[str, float] = field(default_factory=dict)

    def whole(self, name: str, shard: float) -> float:
        """The norm of a whole tensor, from that of this shard."""
        return hypot(shard, self.elsewhere.get(name, 0.0))


def norm(vector: Vector) -> float:
    """Euclidean norm."""
    return float(np.linalg.norm(vector))


def _identity(gradient: Vector) -> Vector:
    return gradient


@dataclass(frozen=True)
class Terms:
    """A sum of the formula: one term depends on the gradient, the others have names.

    `gain` is the largest factor by which the first term enlarges an error of the gradient, measured by norms;
    `error_elsewhere` the largest norm of its change by errors of the gradient's other shards.
    """

    others: Mapping[str, Vector]
    of_gradient: Callable[[Vector], Vector] = field(default=_identity)
    gain: float = 1.0
    error_elsewhere: float = 0.0

    def total(self, gradient: Vector) -> Vector:
        """The sum, for a gradient."""
        return reduce(add, [*self.others.values(), self.of_gradient(gradient)])


@dataclass(frozen=True)
class UpdateRule(ABC):
    """Update rule of an optimiser; the fields are its hyper-parameters, named as their KEYs."""

    optimiser: ClassVar[str]  # dotted name of the torch optimiser class that trains
    # The same with state in fp32 for any weights, used for 16-bit weights and where `optimiser` has no fused version.
    general: ClassVar[str] = ""
    fused: ClassVar[tuple[str, ...]] = ("cpu", "cuda")  # types of devices on which `optimiser` has a fused version
    roundings: ClassVar[int] = 2  # rounding operations, in the type of the weights, in the update of a weight
    weight_roundings: ClassVar[int] = 1  # roundings of the weight itself
    own_epsilon: ClassVar[float] = 0.0  # EPSILON 0 stands for it
    moves_by_norms: ClassVar[bool] = False  # whether a move of weights that decay depends on the whole tensor
    decay: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The rule with the hyper-parameters of a case's settings."""
        return cls(**{part.name: settings[part.name.upper()] for part in fields(cls)})

    @property
    @abstractmethod
    def state(self) -> tuple[str, ...]:
        """Names of the state tensors, of the parameter's shape, that the torch optimiser keeps for each parameter."""

    @property
    def created_state(self) -> tuple[str, ...]:
        """The state tensors that must exist, as zeros, before a first step that overflow may skip."""
        return ()

    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """Keyword arguments of the torch optimiser, except learning rate and weight decay."""

    def norms(self, before: BeforeStep, state: Mapping[str, Vector]) -> Mapping[str, float]:
        """Norms of this shard of a tensor on which the update of other shards depends; `state`: after the step.

        Their names are the same on all ranks.
        """
        return {}

    @abstractmethod
    def sums(self, before: BeforeStep) -> Mapping[str, Terms]:
        """The formula's sums: the new value of each state tensor by its name.

        A sum of another name is not stored: it is seen in the weights only, from which a step subtracts it times
        `factor`.
        """

    def factor(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector | float:
        """The factor, by element, of a sum that is not stored."""
        return before.rate

    @abstractmethod
    def move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        """The update subtracted from the weights, computed from `sums`."""

    def terms_of_move(self, before: BeforeStep, sums: Mapping[str, Vector]) -> Vector:
        """Sum of the magnitudes that are added to make the move: its roundings are relative to them."""
        return np.abs(self.move(before, sums))

    def decays(self, dimensions: int) -> bool:
        """Whether weight decay acts on a parameter: on convolution and dense weights, not on batch norm or biases."""
        return dimensions > 1

    @property
    def eps(self) -> float:
        """The summand that keeps a denominator from 0: EPSILON, or the rule's own."""
        return float(getattr(self, "epsilon", 0.0)) or self.own_epsilon

    def uses_general(self, device: str, parameter: int) -> bool:
        """Whether `general` trains weights of `parameter` bytes on this type of device."""
        return bool(self.general) and (device not in self.fused or parameter < SINGLE)

    def state_element(self, parameter: int) -> int:
        """Bytes of a state element, for a parameter of `parameter` bytes an element."""
        return SINGLE if self.general else parameter

    def state_bytes(self, parameter: int) -> int:
        """Bytes of state per parameter, for the memory plan."""
        return len(self.state) * self.state_element(parameter)

    def scratch_bytes(self, device: str, parameter: int) -> int:
        """Bytes per parameter of fp32 copies during a step, for the memory plan."""
        return SCRATCH * SINGLE * self.uses_general(device, parameter)

    def bytes_moved(self, parameter: int) -> int:
        """Bytes of memory traffic per parameter in a step.

        Weight, gradient and state read, weight and state written.
        """
        return 3 * parameter + 2 * self.state_bytes(parameter)
