"""Schedule of the trials of a search: epochs and patience by round.

Source: AIPerf (Ren et al., 2020, arXiv:2008.07141), sections 4.3 and 4.4.

A round is one trial of every worker; rounds count from 1, and the first four are the warm-up.
"""

WARMUP_ROUNDS = 4
FIRST_PATIENCE, MORE_PATIENCE = 6, 2  # epochs
LEAST_IMPROVEMENT = 1e-3  # smallest decrease of the validation loss that counts, absolute


def number(round_: int, worker: int, workers: int) -> int:
    """The id of a trial, from 1: trials of a round precede those of the next."""
    return (round_ - 1) * workers + worker + 1


def planned_epochs(round_: int, most: int) -> int:
    """Epochs of a trial by round: a quarter of the maximum, a half, three quarters, then all; rounded up."""
    return -(-most * min(round_, WARMUP_ROUNDS) // WARMUP_ROUNDS)


def planned_in_all(rounds_: int, most: int) -> int:
    """Total epochs of one group's trials in the first `rounds_` rounds."""
    first = range(1, min(rounds_, WARMUP_ROUNDS) + 1)
    return sum(planned_epochs(round_, most) for round_ in first) + max(0, rounds_ - WARMUP_ROUNDS) * most


def patience(round_: int, most: int) -> int:
    """Epochs without improvement of the validation loss after which a trial stops."""
    return min(FIRST_PATIENCE + MORE_PATIENCE * (round_ - 1), most)


def warms_up(round_: int) -> bool:
    """Whether a round belongs to the warm-up: values are predicted, hyper-parameters are those of the input."""
    return round_ <= WARMUP_ROUNDS


def improves(loss: float, best: float) -> bool:
    """Whether a validation loss decreased enough to count as an improvement."""
    return loss <= best - LEAST_IMPROVEMENT
