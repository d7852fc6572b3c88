"""Convergence of a search's score."""

from random import Random

import pytest
import trial_records
from trial_records import entry

from hpcai import networks
from hpcai.formulas import aiperf
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import Widen
from hpcai.record.trial import Trial
from hpcai.search import convergence as convergence_module
from hpcai.search.convergence import POINTS, Convergence

GRAPH = networks.build("resnet8", (8, 8), 1, 4, "v1")
WIDER = Widen("stage1_block1_conv1", 24)
WINDOW, SAMPLES = 10.0, 50


def trial(begin: float, seconds: float, epochs: int, correct: int) -> Trial:
    """A trial whose epochs take `seconds`, all with the same accuracy."""
    facts = {"loss": 1.0, "samples": 100, "correct": correct, "counted": SAMPLES}
    times = [begin + seconds * epoch for epoch in range(1, epochs + 1)]
    return trial_records.trial(curve=tuple(entry(seconds=time, **facts) for time in times))


def asked(convergence: Convergence, trials: list[tuple[float, Trial]], until: float) -> float | None:
    """The time of convergence, asked every tenth of a second; trials are returned at their times."""
    left = sorted(trials, key=lambda each: each[0])
    for tenth in range(int(10 * until)):
        while left and left[0][0] <= tenth / 10:
            convergence.add(left.pop(0)[1], ())
        if convergence.reached(tenth / 10):
            return tenth / 10
    return None


def steady(rate: float, until: float, correct: int = 40) -> list[tuple[float, Trial]]:
    """Trials of one epoch, in sequence."""
    return [(rate * number, trial(rate * (number - 1), rate, 1, correct)) for number in range(1, int(until / rate) + 1)]


def test_a_constant_score_has_converged_after_a_window() -> None:
    reached = asked(Convergence(GRAPH, WINDOW, SAMPLES), steady(0.05, 60), 60)
    assert reached is not None and WINDOW <= reached < 2 * WINDOW


def test_a_better_trial_delays_convergence_by_another_window() -> None:
    before = asked(Convergence(GRAPH, WINDOW, SAMPLES), steady(0.05, 60), 60)
    trials = [(at, each) if at < 9 else (at, trial(at - 0.05, 0.05, 1, 48)) for at, each in steady(0.05, 60)]
    after = asked(Convergence(GRAPH, WINDOW, SAMPLES), trials, 60)
    assert before is not None and after is not None and after >= 9 + WINDOW > before


FAILING = [[], steady(0.05, 60, correct=0), [(30.0, trial(1, 1, 3, 20))]]


@pytest.mark.parametrize("trials", FAILING, ids=["none", "wrong", "one"])
def test_an_unvalidated_or_falling_score_does_not_converge(trials: list[tuple[float, Trial]]) -> None:
    assert asked(Convergence(GRAPH, WINDOW, SAMPLES), trials, 60) is None


def test_convergence_is_checked_a_few_times_in_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []
    monkeypatch.setattr(convergence_module.aiperf, "converged", lambda points, window: times.append(window) or False)
    asked(Convergence(GRAPH, WINDOW, SAMPLES), steady(1.0, 30), 30)
    assert 1.5 * POINTS <= len(times) <= 2 * POINTS + 1


def test_sums_give_the_same_series_as_all_validations(monkeypatch: pytest.MonkeyPatch) -> None:
    dice, seen = Random(3), []
    monkeypatch.setattr(convergence_module.aiperf, "converged", lambda points, window: bool(seen.append(points)))
    convergence, credits = Convergence(GRAPH, WINDOW, SAMPLES), []
    for number in range(300):
        chain = (WIDER,) if number % 2 else ()
        one = trial(90 * dice.random(), dice.random(), 8, dice.randrange(50))
        convergence.add(one, chain)
        if number % 100 == 50:
            convergence.reached(number / 3)  # later trials may have earlier times
        credits += aiperf.credits(one.curve, aiperf.work(morphed(GRAPH, chain)))
    seen.clear()
    convergence.reached(99.3)
    wanted = aiperf.series(credits, [], 99.3, WINDOW / POINTS, SAMPLES)
    assert seen == [wanted[-len(seen[0]) :]] and POINTS <= len(seen[0]) <= POINTS + 3
    assert sum(point < convergence._first for point in convergence._sums) == 0


def test_a_short_window_takes_no_longer_than_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(convergence_module.aiperf, "converged", lambda points, window: bool(seen.append(len(points))))
    convergence = Convergence(GRAPH, 1e-6, SAMPLES)
    convergence.add(trial(0.0, 1.0, 8, 40), ())
    convergence.reached(36000.0)
    assert len(seen) == 1 and seen[0] <= POINTS + 3
