"""Memory and time of a case of `[comm]` before it runs."""

from collections.abc import Mapping
from typing import Any

from hpcai.estimate.kernels import Rank
from hpcai.estimate.memory import NCCL
from hpcai.result.collectives import COLLECTIVES

MIB = 2**20
# As comm/slots.py, comm/payload.py and comm/timing.py have them.
POOL = 3  # sizes of the largest collective
PATTERNS = 6 * 3 * 65521 * 4  # bytes: six of three blocks each
COMPARED = 5 * 2**22  # bytes: of elements at a time, and whether they differ
TIMED = 0.04  # seconds of a row
# Sizes that gloo holds at once: copies of what a call sends or receives, those of the call before, and what comes to
# lie between them. MPI needs less.
COPIES = 3.5
NETWORKED = 13 * MIB  # threads, sockets and small objects
BACKENDS = 2
AROUND = 0.04  # seconds of a row: trials, barriers, questions whether to end
SECONDS_PER_BYTE = 4e-9  # of a row: filled, sent three times and checked, in host memory


def comm_memory(settings: Mapping[str, Any], rank: Rank) -> dict[str, int]:
    """Most bytes of one rank by purpose, all at once; the baseline of the process is not in it. On a GPU its bytes."""
    alone, largest = settings["GROUPS"] * settings["DEGREE"] == 1, max(settings["SIZES"])
    if alone:
        return {"other": NETWORKED}
    copies = NCCL if rank.accelerated else round(COPIES * largest)
    return {"buffers": POOL * largest, "backend": copies, "checks": PATTERNS + COMPARED, "other": NETWORKED}


def comm_seconds(settings: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of a case, roughly, on one node whose ranks have a processor each."""
    grid = (settings["GROUPS"], settings["DEGREE"])
    scopes = 3 if min(grid) > 1 else int(max(grid) > 1)
    rows = scopes * BACKENDS * len(COLLECTIVES)
    each = sum(TIMED + AROUND + SECONDS_PER_BYTE * size for size in settings["SIZES"])
    return {"collectives": rows * each}
