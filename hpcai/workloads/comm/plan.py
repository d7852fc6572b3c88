"""Memory and time estimates of a case of `[comm]`."""

from hpcai.comm.buffers import POOL
from hpcai.comm.test_pattern import MOST_ELEMENTS
from hpcai.estimate import Rank
from hpcai.estimate.memory import NCCL
from hpcai.formulas.collectives import ELEMENT, ScopeName, measured_in
from hpcai.gradients.reductions.torus import Torus
from hpcai.inputfile import Case
from hpcai.plan.requirements import Requirements, shared

MIB = 2**20
PATTERNS = 6 * 3 * 65521 * 4  # bytes: six of three blocks each
COMPARED = 5 * MOST_ELEMENTS  # bytes: of elements at a time, and whether they differ
TIMED = 0.04  # seconds of a row, as comm/collective_timing.py has them, which cannot be imported without MPI
# Buffers of the largest size that gloo holds at once: copies of this call's data and of the call before, and what comes
# to
# lie between them. MPI needs less.
COPIES = 3.5
NETWORKED = 13 * MIB  # threads, sockets and small objects
BACKENDS = 2
AROUND = 0.04  # seconds of a row: trials, barriers, polls for shutdown
SECONDS_PER_BYTE = 4e-9  # of a row: filled, sent three times and checked, in host memory


def comm_memory(case: Case, rank: Rank) -> dict[str, int]:
    """Peak bytes of one rank by purpose, without the baseline of the process; on a GPU its bytes."""
    alone, largest = case.groups * case.degree == 1, max(case["SIZES"])
    if alone:
        return {"other": NETWORKED}
    copies = NCCL if rank.accelerated else round(COPIES * largest)
    copies += Torus().buffer_bytes(largest // ELEMENT, case.groups * case.degree) * (case.degree > 1)
    return {"buffers": POOL * largest, "backend": copies, "checks": PATTERNS + COMPARED, "other": NETWORKED}


def comm_seconds(case: Case) -> dict[str, float]:
    """Approximate seconds of a case on one node with a processor for each rank."""
    grid = (case.groups, case.degree)
    scopes: list[ScopeName] = ["world", "group", "across"] if min(grid) > 1 else ["world"] * (max(grid) > 1)
    rows = BACKENDS * sum(len(measured_in(scope, case.groups)) for scope in scopes)
    each = sum(TIMED + AROUND + SECONDS_PER_BYTE * size for size in case["SIZES"])
    return {"collectives": rows * each}


PURPOSES = {
    "buffers": "send and receive buffers of the collectives",
    "backend": "the backend's own copies",
    "checks": "expected results of the collectives, and their comparison",
    "other": "small objects",
}
REQUIREMENTS = Requirements(
    memory=lambda case, device, rank: comm_memory(case, rank),
    seconds=lambda case, device, rank, ranks: shared(comm_seconds(case), ranks),
    cure=lambda case: "smaller SIZES need less",
    purposes=PURPOSES,
)
