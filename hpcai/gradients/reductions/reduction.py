"""Interface of an all-reduce algorithm, and of the link between the ranks that it uses."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

Vector = Any  # a torch.Tensor of one dimension
Future = Any  # a torch.futures.Future


class Link(Protocol):
    """The ranks of a group, connected by the backend of the training."""

    @property
    def ranks(self) -> int:
        """Number of ranks of the group."""

    def all_reduce(self, vector: Vector) -> Future:
        """Start to sum a vector over all ranks in place; the future's value is a list of it alone."""


class Reduction(ABC):
    """All-reduce algorithm: sums vectors over all ranks of a group; every rank gets the same bits."""

    digit: ClassVar[int]  # in T/V

    @abstractmethod
    def sum(self, vector: Vector, link: Link) -> Future:
        """Start to sum a vector in place; the future's value is a list of it alone. Collective over the ranks."""

    @abstractmethod
    def bytes_sent(self, nbytes: float, ranks: int) -> float:
        """Bytes that each rank sends, and receives, to sum a vector of `nbytes` bytes."""

    def buffer_bytes(self, nbytes: int, ranks: int) -> int:
        """Bytes of additional memory for summing `nbytes` bytes of gradients."""
        return 0
