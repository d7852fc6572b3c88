"""Where the calls of a collective find their data: each call has a slot of its own, so each result can be checked.

Training as well finds its gradients in memory, and not in a cache. In place, a second call on the same data would sum
sums.
"""

from dataclasses import dataclass

import torch

from hpcai.comm.test_pattern import VARIANTS, Pattern, total_weight, values, weight
from hpcai.formulas.collectives import ELEMENT, CollectiveName, parts

POOL = 3  # sizes of the largest collective: two calls, out of place between two ranks
ALIGNED = 16  # elements
UNWRITTEN = -1.0
SUMS = ("all_reduce", "reduce_scatter")


def pool_elements(largest: int) -> int:
    """Elements of the memory for collectives of at most `largest` bytes."""
    return POOL * -(-largest // ELEMENT) + 4 * POOL * ALIGNED


@dataclass(frozen=True)
class Buffers:
    """What the calls send and receive, a row for each call; the same memory where a collective works in place."""

    send: torch.Tensor
    receive: torch.Tensor

    @property
    def count(self) -> int:
        """For how many calls there is data."""
        return len(self.receive)


def divide(pool: torch.Tensor, collective: CollectiveName, count: int, ranks: int) -> Buffers:
    """As many slots as the pool has room for."""
    whole = count * parts(collective, ranks)
    received = count if collective == "reduce_scatter" else whole
    sent = {"reduce_scatter": whole, "all_gather": count}.get(collective, 0)
    begin = _aligned(received)
    stride = begin + _aligned(sent)
    places = pool[: len(pool) // stride * stride].view(-1, stride)
    receive = places[:, :received]
    return Buffers(places[:, begin : begin + sent] if sent else receive, receive)


def _aligned(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED


class CollectivePatterns:
    """What this rank sends in the collectives of a communicator, and what it has to receive, in each of the turns."""

    def __init__(self, ranks: int, rank: int, device: torch.device) -> None:
        different = values(ranks)
        self._rank = rank
        self._own = [Pattern(turn, weight(rank, turn), different, device) for turn in range(VARIANTS)]
        self._sums = [Pattern(turn, total_weight(ranks, turn), different, device) for turn in range(VARIANTS)]
        self._plain = [Pattern(turn, 1, values(1), device) for turn in range(VARIANTS)]

    def fill(self, slots: Buffers, collective: CollectiveName, calls: int, first: int = 0) -> None:
        """Make the first `calls` slots ready; call i is of turn i + `first`, so neighbours differ."""
        for turn in range(VARIANTS):
            mine = slice((turn - first) % VARIANTS, calls, VARIANTS)
            if collective != "all_reduce":
                slots.receive[mine].fill_(UNWRITTEN)
            self._send(slots.send[mine], collective, turn)

    def _send(self, send: torch.Tensor, collective: CollectiveName, turn: int) -> None:
        if collective in SUMS:
            self._own[turn].fill(send, 0)
        elif collective == "all_gather":
            self._plain[turn].fill(send, self._rank * send.shape[1])
        elif self._rank == 0:
            self._plain[turn].fill(send, 0)

    def wrong(self, slots: Buffers, collective: CollectiveName, calls: int, first: int = 0) -> int:
        """Elements that this rank has received wrong in the first `calls` slots, filled with the same `first`."""
        patterns = self._sums if collective in SUMS else self._plain
        start = self._rank * slots.receive.shape[1] if collective == "reduce_scatter" else 0
        return sum(
            pattern.wrong(slots.receive[(turn - first) % VARIANTS : calls : VARIANTS], start)
            for turn, pattern in enumerate(patterns)
        )
