"""Interface of an all-reduce algorithm, and of the links between ranks that it uses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.layout import Layout, LinkName

Vector = Any  # a contiguous torch.Tensor of one dimension
Future = Any  # a torch.futures.Future


class Link(Protocol):
    """Ranks of a group that are connected by one backend. Each call is collective over them and moves no rank ahead.

    On a GPU the calls are submitted to the current stream; on a CPU they return when they are done. `sent` counts
    the bytes that this rank had to send at least: 2 (q - 1) / q of an all-reduce, (q - 1) / q of the others.
    """

    name: LinkName
    ranks: int
    rank: int
    sums_16_bits: bool  # whether the backend's all-reduce of 16-bit numbers is fast
    sent: float

    def all_reduce(self, vector: Vector) -> None:
        """Sum a vector over all ranks in place, every rank with the same bits."""

    def reduce_scatter(self, vector: Vector, part: Vector) -> None:
        """Part r of the sum over all ranks, on rank r; `vector` may be overwritten."""

    def all_gather(self, part: Vector, vector: Vector) -> None:
        """The parts of all ranks in rank order, on every rank; of any type."""

    def all_to_all(self, vector: Vector, parts: Vector) -> None:
        """Part r of each rank's vector, in rank order, on rank r; of any type."""

    def largest(self, number: Vector) -> None:
        """The largest of the ranks' numbers in place; a vector of one fp32 element."""

    def buffer(self, name: str, kind: str, count: int) -> Vector:
        """Memory of torch's type `kind`, the same for the same name; its contents are undefined."""

    def packing(self) -> AbstractContextManager[Any]:
        """The functions of hpcai.kernels.wire for this device; the time spent with them is measured."""


Links = Mapping[LinkName, Link]
Exchange = Callable[[Vector, Link, int], None]  # sums over a link a part of the vector that begins at an element


class Reduction(ABC):
    """All-reduce algorithm: sums vectors over all ranks of a group; every rank gets the same bits."""

    digit: ClassVar[int]  # in T/V
    links: ClassVar[tuple[LinkName, ...]]  # the last one is that of the exchange, in the wire type

    @abstractmethod
    def sum(self, vector: Vector, links: Links, exchange: Exchange) -> None:
        """Sum an fp32 vector in place; `exchange` sums parts of it in the wire type. Collective over the ranks."""

    @abstractmethod
    def bytes_sent(self, elements: float, sizes: Mapping[LinkName, int], element: int) -> dict[LinkName, float]:
        """Bytes that each rank sends by link, to sum `elements` gradients of `element` bytes on the wire.

        sizes: ranks of each link. Without the padding of parts to equal sizes.
        """

    def buffer_bytes(self, elements: int, ranks: int) -> int:
        """Bytes of additional memory at most, for summing `elements` gradients at a time."""
        return 0

    def refusal(self, layout: Callable[[], Layout]) -> str:
        """Why a group cannot use this algorithm; empty if it can. `layout` is only called by those that need nodes."""
        return ""


class Nested(Reduction):
    """Reduce-scatter over an inner link, exchange of the parts over an outer link, all-gather over the inner one.

    The inner link carries fp32. A link of one rank moves nothing.
    """

    def sum(self, vector: Vector, links: Links, exchange: Exchange) -> None:
        inner, outer = (links[name] for name in self.links)
        if inner.ranks == 1:
            exchange(vector, outer, 0)
            return
        count = -(-len(vector) // inner.ranks)
        whole = padded(vector, count * inner.ranks, inner)
        part = inner.buffer("part", "float32", count)
        inner.reduce_scatter(whole, part)
        exchange(part, outer, inner.rank * count)
        inner.all_gather(part, whole)
        if whole is not vector:
            vector.copy_(whole[: len(vector)])

    def bytes_sent(self, elements: float, sizes: Mapping[LinkName, int], element: int) -> dict[LinkName, float]:
        inner, outer = self.links
        return {
            inner: moved_in_all_reduce(4 * elements, sizes[inner]),
            outer: moved_in_all_reduce(element * elements / sizes[inner], sizes[outer]),
        }

    def buffer_bytes(self, elements: int, ranks: int) -> int:
        """The padded vector, another one that a reduce-scatter receives, and a part of up to half of it."""
        return 4 * elements * 5 // 2 + 4 * ranks


def padded(vector: Vector, count: int, link: Link) -> Vector:
    """The vector itself if it has `count` elements, else a copy with zeros at its end."""
    if len(vector) == count:
        return vector
    whole = link.buffer("padded", "float32", count)
    whole[: len(vector)].copy_(vector)
    whole[len(vector) :].zero_()
    return whole
