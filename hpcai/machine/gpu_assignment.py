"""Assignment of GPUs to the ranks of a node: one GPU a rank, or the job is refused (docs/decisions/0007-gpus.md)."""

from collections.abc import Sequence

from hpcai.errors import LaunchError
from hpcai.machine.affinity import ranges

Identities = Sequence[str]  # the GPUs that a rank sees, in the order of their numbers


def numbers(seen: Sequence[Identities]) -> list[int]:
    """Number of the GPU of each rank of a node, among the GPUs that the rank sees; each sees at least one.

    A launcher may show all GPUs to all ranks, one to each rank, or some to some: ranks that see the same GPUs take them
    round-robin.
    """
    return [_position(seen, rank) % len(gpus) for rank, gpus in enumerate(seen)]


def _position(seen: Sequence[Identities], rank: int) -> int:
    """Number of earlier ranks that see the same GPUs."""
    return sum(gpus == seen[rank] for gpus in seen[:rank])


def refuse_sharing(ranks: Sequence[int], seen: Sequence[Identities]) -> None:
    """Raise LaunchError if two ranks of a node would take the same GPU. `ranks`: numbers of the ranks in the job."""
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
