"""The roofline of a rank: what processor, memory and network let it reach (HPC AI500 V2; Williams et al., 2009).

attainable = min(P of convolutions and products, B_mem x I_mem, B_comm x I_comm). What was not measured is None.
"""

from collections.abc import Mapping
from typing import Literal

Rates = Mapping[str, float | None]

Bound = Literal["compute", "memory", "communication"]
COMPUTE: Bound = "compute"
MEMORY: Bound = "memory"
COMMUNICATION: Bound = "communication"


def moved_in_all_reduce(nbytes: float, ranks: int) -> float:
    """Bytes that each rank must send, and receive, to sum `nbytes` over `ranks` ranks: 2 (q - 1) / q of them."""
    return 2 * (ranks - 1) / ranks * nbytes


def combined(work: Mapping[str, int], rates: Rates) -> float | None:
    """FLOP/s of several kinds of work done one after the other: total operations / total time.

    None if the rate of a kind that occurs is not known, or nothing is to be done.
    """
    seconds = 0.0
    for kind, operations in work.items():
        rate = rates.get(kind)
        if operations and not rate:
            return None
        seconds += operations / rate if rate else 0.0
    return sum(work.values()) / seconds if seconds else None


def bound(rate: float | None, intensity: float | None) -> float | None:
    """FLOP/s allowed by a bandwidth in bytes/s at an intensity in FLOP/byte; None if either is unknown."""
    return None if rate is None or intensity is None else rate * intensity


def attainable(bounds: Mapping[Bound, float | None]) -> tuple[float | None, Bound | None]:
    """The lowest known bound and its name; (None, None) unless the compute bound is known."""
    known = {name: value for name, value in bounds.items() if value is not None}
    if COMPUTE not in known:
        return None, None
    name = min(known, key=lambda name: known[name])
    return known[name], name


def share(rate: float, ceiling: float | None) -> float | None:
    """The share of a ceiling; above 1 if the ceiling was too low."""
    return rate / ceiling if ceiling else None


def bandwidth(sent: float, steps: float, seconds: float) -> float:
    """Bytes per second that a rank sent, and received, to average gradients; `sent` bytes per step."""
    return sent * steps / seconds
