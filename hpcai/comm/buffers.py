"""Buffers of the timed collectives: each call has buffers of its own, so that each result can be checked.

The data therefore come from memory and not from a cache, as gradients do in training. A second call in place on the
same buffer would add sums to sums.
"""

from dataclasses import dataclass

import torch

from hpcai.comm.test_pattern import VARIANTS, Pattern, total_weight, values, weight
from hpcai.formulas.collectives import ALGORITHMS, ELEMENT, CollectiveName, parts

POOL = 3  # times the largest collective: room for two calls out of place between two ranks
ALIGNED = 16  # elements
UNWRITTEN = -1.0
IN_PLACE = ("all_reduce", *ALGORITHMS)  # sums on the same memory
SUMS = (*IN_PLACE, "reduce_scatter")


def pool_elements(largest: int) -> int:
    """Elements of the pool for collectives of at most `largest` bytes."""
    return POOL * -(-largest // ELEMENT) + 4 * POOL * ALIGNED


@dataclass(frozen=True)
class Buffers:
    """Send and receive buffers, a row for each call; the same memory where a collective works in place."""

    send: torch.Tensor
    receive: torch.Tensor

    @property
    def count(self) -> int:
        """Number of calls that have buffers."""
        return len(self.receive)


def divide(pool: torch.Tensor, collective: CollectiveName, count: int, ranks: int) -> Buffers:
    """As many buffers as the pool has room for."""
    whole = count * parts(collective, ranks)
    received = count if collective == "reduce_scatter" else whole
    sent = {"reduce_scatter": whole, "all_gather": count}.get(collective, 0)
    begin = _aligned(received)
    stride = begin + _aligned(sent)
    rows = pool[: len(pool) // stride * stride].view(-1, stride)
    receive = rows[:, :received]
    return Buffers(rows[:, begin : begin + sent] if sent else receive, receive)


def _aligned(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


class CollectivePatterns:
    """The data that this rank sends in the collectives of a communicator, and those it must receive."""

    def __init__(self, ranks: int, rank: int, device: torch.device) -> None:
        different = values(ranks)
        self._rank = rank
        self._own = [Pattern(variant, weight(rank, variant), different, device) for variant in range(VARIANTS)]
        self._sums = [Pattern(variant, total_weight(ranks, variant), different, device) for variant in range(VARIANTS)]
        self._plain = [Pattern(variant, 1, values(1), device) for variant in range(VARIANTS)]

    def fill(self, buffers: Buffers, collective: CollectiveName, calls: int, first: int = 0) -> None:
        """Fill the buffers of the first `calls` calls; call i has variant i + `first`, so that neighbours differ."""
        for variant in range(VARIANTS):
            chosen = slice((variant - first) % VARIANTS, calls, VARIANTS)
            if collective not in IN_PLACE:
                buffers.receive[chosen].fill_(UNWRITTEN)
            self._send(buffers.send[chosen], collective, variant)

    def _send(self, send: torch.Tensor, collective: CollectiveName, variant: int) -> None:
        if collective in SUMS:
            self._own[variant].fill(send, 0)
        elif collective == "all_gather":
            self._plain[variant].fill(send, self._rank * send.shape[1])
        elif self._rank == 0:
            self._plain[variant].fill(send, 0)

    def wrong(self, buffers: Buffers, collective: CollectiveName, calls: int, first: int = 0) -> int:
        """Number of wrong elements that this rank received in the first `calls` calls, filled with the same `first`."""
        patterns = self._sums if collective in SUMS else self._plain
        start = self._rank * buffers.receive.shape[1] if collective == "reduce_scatter" else 0
        return sum(
            pattern.wrong(buffers.receive[(variant - first) % VARIANTS : calls : VARIANTS], start)
            for variant, pattern in enumerate(patterns)
        )
