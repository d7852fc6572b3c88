"""The resources of a rank that memory and time of a test depend on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """A rank before a test runs: its threads, the bytes it may use, and the ranks and last-level caches of its node.

    accelerated: whether it computes on a GPU, whose free bytes these are.
    """

    threads: int
    free: int
    ranks: int = 1
    cache: int = 2**25
    accelerated: bool = False
