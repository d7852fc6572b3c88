"""TPE suggests the same values as Optuna, finds good ones, and depends on nothing but its arguments."""

import random
from collections import Counter

import pytest
from sampled_parameters import fast

from hpcai.search.tpe import Observation, split, suggest

SPACE = {"batch": (16, 32, 64), "kernel": (3, 5, 7)}


def history_of(count: int, seed: int = 1) -> list[Observation]:
    """Trials of random values; kernel 5 is best, batch 64 worst."""
    dice = random.Random(seed)
    found = []
    for _ in range(count):
        values = {name: dice.choice(choices) for name, choices in SPACE.items()}
        accuracy = 0.5 + 0.2 * (values["kernel"] == 5) - 0.1 * (values["batch"] == 64) + 0.05 * dice.random()
        found.append(Observation(values, accuracy))
    return found


@pytest.mark.parametrize("count", fast([0, 12, 40], [0, 1, 12, 40, 300]))
def test_values_are_chosen_as_often_as_by_optuna(count: int) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    history, draws = history_of(count), 120
    distributions = {name: optuna.distributions.CategoricalDistribution(list(c)) for name, c in SPACE.items()}
    own: dict[str, Counter[int]] = {name: Counter() for name in SPACE}
    optunas: dict[str, Counter[int]] = {name: Counter() for name in SPACE}
    for seed in range(draws):
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(n_startup_trials=1, multivariate=False, seed=seed)
        )
        for trial in history:
            study.add_trial(
                optuna.trial.create_trial(params=trial.values, distributions=distributions, value=trial.accuracy)
            )
        asked = study.ask(distributions).params
        for name, value in suggest(SPACE, history, seed).items():
            own[name][value] += 1
            optunas[name][asked[name]] += 1
    for name, choices in SPACE.items():
        for choice in choices:
            assert abs(own[name][choice] - optunas[name][choice]) <= 0.2 * draws, (name, choice)


def test_old_trials_have_less_weight_as_in_optuna() -> None:
    """Kernel 3 was poor more often than 7, but long ago: with less weight, it is the better one."""
    values = [*[3] * 140, *[7] * 110]
    history = [Observation({"kernel": kernel}, 0.1) for kernel in values]
    history += [Observation({"kernel": kernel}, 0.9) for kernel in [3, 7] * 14]
    space = {"kernel": (3, 7)}
    assert {suggest(space, history, seed)["kernel"] for seed in range(20)} == {3}
    optuna = pytest.importorskip("optuna")
    distributions = {"kernel": optuna.distributions.CategoricalDistribution([3, 7])}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1, multivariate=False))
    for trial in history:
        study.add_trial(
            optuna.trial.create_trial(params=trial.values, distributions=distributions, value=trial.accuracy)
        )
    assert study.ask(distributions).params["kernel"] == 3


def test_good_values_are_found() -> None:
    found = Counter(suggest(SPACE, history_of(40), seed)["kernel"] for seed in range(50))
    assert found[5] >= 45
    reversed_ = [trial._replace(accuracy=-trial.accuracy) for trial in history_of(40)]
    worst = Counter(suggest(SPACE, reversed_, seed)["kernel"] for seed in range(50))
    assert worst[5] <= 5


def test_suggestions_depend_on_space_history_and_seed_alone() -> None:
    history = history_of(20)
    assert suggest(SPACE, history, 7) == suggest(SPACE, list(history), 7)
    assert len({tuple(suggest(SPACE, [], seed).values()) for seed in range(60)}) == 9


def test_the_best_tenth_counts_as_good() -> None:
    history = history_of(35)
    good, others = split(history)
    assert len(good) == 4 and len(others) == 31
    assert min(trial.accuracy for trial in good) >= max(trial.accuracy for trial in others)
    assert [trial for trial in history if trial in others] == others


def test_values_that_are_no_longer_choices_are_ignored() -> None:
    assert suggest({"batch": (8, 16)}, history_of(20), 1)["batch"] in (8, 16)
