"""The limits of a trial grow with its round, by AIPerf's rules."""

import pytest

from hpcai.formulas.trial_schedule import improves, number, patience, planned_epochs, planned_in_all, warms_up


def test_trials_are_numbered_round_by_round() -> None:
    assert [number(round_, worker, 3) for round_ in (1, 2, 4) for worker in range(3)] == [1, 2, 3, 4, 5, 6, 10, 11, 12]
    assert [number(round_, 0, 1) for round_ in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("most", "epochs"),
    [(60, [15, 30, 45, 60, 60, 60]), (90, [23, 45, 68, 90, 90, 90]), (1, [1] * 6), (2, [1, 1, 2, 2, 2, 2])],
)
def test_epochs_grow_by_a_quarter_each_round_rounded_up(most: int, epochs: list[int]) -> None:
    assert [planned_epochs(round_, most) for round_ in range(1, 7)] == epochs


def test_patience_grows_by_two_epochs_each_round() -> None:
    assert [patience(round_, 25) for round_ in range(1, 13)] == [6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25, 25]
    assert [patience(round_, 3) for round_ in (1, 2, 9)] == [3, 3, 3]


def test_the_first_four_rounds_are_the_warm_up() -> None:
    assert [warms_up(round_) for round_ in (1, 4, 5, 100)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("loss", "best", "better"),
    [(0.5, 1.0, True), (1.0, 1.0, False), (0.9995, 1.0, False), (2.0, 1.0, False), (7.0, float("inf"), True)],
)
def test_a_hardly_smaller_loss_is_no_improvement(loss: float, best: float, better: bool) -> None:
    assert improves(loss, best) is better
    assert not improves(float("nan"), best)


def test_the_smallest_improvement_that_counts() -> None:
    assert improves(0.25, 0.25 + 2**-9) and not improves(0.25, 0.25 + 2**-10)


def test_epochs_of_many_rounds_are_the_sum() -> None:
    for most in (1, 4, 60):
        for rounds in range(9):
            assert planned_in_all(rounds, most) == sum(planned_epochs(round_, most) for round_ in range(1, rounds + 1))
