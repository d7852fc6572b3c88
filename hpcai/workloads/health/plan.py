"""Memory and time estimates of a case of `[health]`."""

from hpcai.comm.buffers import POOL
from hpcai.estimate import Rank
from hpcai.estimate.memory import NCCL
from hpcai.inputfile import Case
from hpcai.kernels.spec import DTYPES
from hpcai.plan.requirements import Requirements, shared
from hpcai.workloads.kernels.plan import BLOCKS as CHECK_ARRAYS
from hpcai.workloads.kernels.plan import CACHED, CHECK_SPEED, FP64_BYTES, PACKED, SPEED, TRIAD_VECTORS, triad_length

MIB = 2**20
SIDES = {False: 1024, True: 8192}  # of the matrices on a CPU, on a GPU
BLOCKS, LEAST, PAUSE = 5, 0.05, 0.01  # blocks of calls, of so many seconds at least, and seconds between them
EXCHANGED = 4 * MIB  # bytes of an all-reduce, and of an exchange between two ranks
BLOCK_ELEMENTS = 2**20  # of a block of a check, as kernels/verify.py has them
GLOO_COPIES = 3.5  # of an all-reduce, as workloads/comm/plan.py has them
SMALL_OBJECTS = 40 * MIB  # of Python and torch, threads and sockets
VECTORS_SECONDS = {False: 3.0, True: 15.0}  # most of it to check them
LINK_SECONDS = 3.0


def side_of(case: Case, rank: Rank) -> int:
    """Side of the square matrices."""
    return int(case["SIDE"] or SIDES[rank.accelerated])


def health_memory(case: Case, rank: Rank) -> dict[str, int]:
    """Peak bytes of one rank by purpose, without the baseline of the process; on a GPU its bytes."""
    side, vectors = side_of(case, rank), sum(TRIAD_VECTORS[rank.accelerated])
    # On a CPU the operands are drawn in fp32 or fp64 and the results have the vendor's type.
    matrices = 3 * side**2 * max(sum(DTYPES[dtype].nbytes) // 2 for dtype in ("fp32", *case["TYPES"]))
    operands = max(2 * matrices, FP64_BYTES * vectors * triad_length(rank))
    if rank.accelerated:
        return {"operands": operands, "exchanged": POOL * EXCHANGED + NCCL, "caches": CACHED}
    check = CHECK_ARRAYS * FP64_BYTES * min(BLOCK_ELEMENTS, side**2) + 2 * FP64_BYTES * side**2
    buffers = round((POOL + GLOO_COPIES) * EXCHANGED)
    return {
        "operands": operands,
        "check": check,
        "packed": rank.threads * PACKED,
        "exchanged": buffers,
        "small objects": SMALL_OBJECTS,
    }


def health_seconds(case: Case, rank: Rank) -> dict[str, float]:
    """Approximate seconds of a case without slow nodes."""
    operations = 2.0 * side_of(case, rank) ** 3
    call = operations / (SPEED[rank.accelerated] * (1 if rank.accelerated else rank.threads))
    each = BLOCKS * (PAUSE + max(LEAST, call) + call) + min(operations, 2.0**31) / CHECK_SPEED
    kernels = each * len(case["TYPES"]) + VECTORS_SECONDS[rank.accelerated]
    return {"rates of kernels": kernels, "rates of links": LINK_SECONDS}


PURPOSES = {
    "operands": "matrices of the products, or vectors of the triad",
    "check": "the check of a result in float64",
    "packed": "packed blocks of the threads",
    "exchanged": "buffers of the all-reduce and of the exchanges between nodes",
    "caches": "buffer that overwrites a GPU's caches between calls",
    "small objects": "of Python and libraries",
}
REQUIREMENTS = Requirements(
    memory=lambda case, device, rank: health_memory(case, rank),
    seconds=lambda case, device, rank, ranks: shared(health_seconds(case, rank), ranks),
    cure=lambda case: "a smaller SIDE needs less",
    purposes=PURPOSES,
)
