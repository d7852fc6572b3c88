"""Which GPU each rank of a node takes: one of its own, or the job is refused (docs/decisions/0007-gpus.md)."""

from collections.abc import Sequence

from hpcai.errors import LaunchError
from hpcai.machine.affinity import ranges

Identities = Sequence[str]  # of the GPUs that a rank sees, by their numbers


def numbers(seen: Sequence[Identities]) -> list[int]:
    """Number of the GPU that each rank of a node takes, among those that it sees; there is one at least.

    A launcher may show all ranks all GPUs, each rank one, or some ranks some: those that see the same ones take them in
    turn.
    """
    return [_place(seen, rank) % len(gpus) for rank, gpus in enumerate(seen)]


def _place(seen: Sequence[Identities], rank: int) -> int:
    """How many ranks before this one see the same GPUs."""
    return sum(gpus == seen[rank] for gpus in seen[:rank])


def refuse_sharing(ranks: Sequence[int], seen: Sequence[Identities]) -> None:
    """Raise LaunchError if two ranks of a node would take the same GPU. `ranks`: their numbers in the job."""
    taken = [gpus[number] for gpus, number in zip(seen, numbers(seen), strict=True)]
    shared = [gpu for gpu in dict.fromkeys(taken) if taken.count(gpu) > 1]
    if shared:
        users = [rank for rank, gpu in zip(ranks, taken, strict=True) if gpu == shared[0]]
        others = f", as others would share {len(shared) - 1} more" if len(shared) > 1 else ""
        count = len({gpu for gpus in seen for gpu in gpus})
        raise LaunchError(
            f"ranks {ranges(users)} would share {shared[0]}{others}: the {len(seen)} ranks of this node see {count} in "
            "all; allowed: one rank a GPU or MIG instance, so fewer ranks a node or others shown to each by "
            "CUDA_VISIBLE_DEVICES; with nothing behind the = it hides all, and the run is one on CPUs"
        )
