"""Resources of a rank on which memory and time of a test depend."""

from dataclasses import dataclass

from hpcai.estimate.communication import LINK


@dataclass(frozen=True)
class Rank:
    """Resources of a rank: threads, bytes it may use, ranks and last-level cache bytes of its node.

    accelerated: whether it computes on a GPU, whose free bytes these are. link: bytes/s each way between nodes.
    """

    threads: int
    free: int
    ranks: int = 1
    cache: int = 2**25
    accelerated: bool = False
    link: float = LINK
