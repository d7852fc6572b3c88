"""The GPU that a rank takes, whatever its launcher shows it; no two ranks take the same one."""

from collections.abc import Sequence

import pytest

from hpcai.errors import LaunchError
from hpcai.machine.gpu_assignment import numbers, refuse_sharing

A, B, C, D = "GPU-a", "GPU-b", "GPU-c", "GPU-d"
ALL = (A, B, C, D)


@pytest.mark.parametrize(
    ("seen", "taken"),
    [
        ([ALL] * 4, [0, 1, 2, 3]),  # mpirun, or srun --gpus-per-node
        ([ALL] * 2, [0, 1]),
        ([(A,), (B,), (C,), (D,)], [0, 0, 0, 0]),  # srun --gpus-per-task=1, or MIG instances by name
        ([(A, B), (C, D), (A, B), (C, D)], [0, 0, 1, 1]),  # by socket, ranks assigned to alternating sockets
        ([(A, B), (A, B), (C, D), (C, D)], [0, 1, 0, 1]),
        ([(B, A), (B, A)], [0, 1]),  # as CUDA_VISIBLE_DEVICES orders them
        ([(A, B), (B,)], [0, 0]),
    ],
)
def test_each_rank_takes_a_gpu_of_its_own(seen: list[Sequence[str]], taken: list[int]) -> None:
    assert numbers(seen) == taken
    refuse_sharing(range(len(seen)), seen)


@pytest.mark.parametrize(
    ("ranks", "seen", "words"),
    [
        ([0, 1], [(A,)] * 2, f"ranks 0-1 would share {A}: the 2 ranks of this node see 1 in all"),
        ([8, 9, 10], [(A, B)] * 3, f"ranks 8,10 would share {A}: the 3 ranks of this node see 2 in all"),
        ([0, 1], [(A, B), (A,)], f"ranks 0-1 would share {A}: "),
        ([*range(8)], [ALL] * 8, f"ranks 0,4 would share {A}, as others would share 3 more: "),
        ([3, 5], [("MIG-x",)] * 2, "ranks 3,5 would share MIG-x: "),
    ],
)
def test_ranks_that_would_share_a_gpu_are_refused(ranks: list[int], seen: list[Sequence[str]], words: str) -> None:
    with pytest.raises(LaunchError) as refused:
        refuse_sharing(ranks, seen)
    message = str(refused.value)
    assert words in message and refused.value.exit_code == 2
    assert "allowed: one rank a GPU or MIG instance" in message and "CUDA_VISIBLE_DEVICES" in message
