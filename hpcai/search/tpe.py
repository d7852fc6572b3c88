"""Tree-structured Parzen estimator (TPE): suggests hyper-parameters, each from a list of choices.

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011, section 4, with the constants of
Optuna (Akiba et al., 2019): the best tenth against the rest, one more observation for the prior, 24 candidates.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GOOD_SHARE, MOST_GOOD = 0.1, 25  # of all trials
CANDIDATES = 24
RECENT = 25  # observations with full weight; where there are more, older ones weigh less

Space = Mapping[str, Sequence[int]]  # the choices of each hyper-parameter
Floats = NDArray[np.float64]


class Observation(NamedTuple):
    """The hyper-parameters of a trial, and its accuracy."""

    values: Mapping[str, int]
    accuracy: float


def suggest(space: Space, history: Sequence[Observation], seed: int) -> dict[str, int]:
    """The values to try next; higher accuracies are better. A function of space, history in order, and seed alone."""
    generator = np.random.Generator(np.random.Philox([seed, len(history)]))
    return {name: _choose(name, choices, history, generator) for name, choices in space.items()}


def _choose(name: str, choices: Sequence[int], history: Sequence[Observation], generator: np.random.Generator) -> int:
    """Of candidates drawn from the density of the good trials, the one with the highest ratio of the two densities."""
    good, bad = (_density(choices, [trial.values.get(name) for trial in part]) for part in split(history))
    candidates = generator.choice(len(choices), CANDIDATES, p=good)
    return choices[candidates[np.argmax(good[candidates] / bad[candidates])]]


def split(history: Sequence[Observation]) -> tuple[list[Observation], list[Observation]]:
    """The best tenth of the trials, and the others, each in the order of the history."""
    count = min(ceil(GOOD_SHARE * len(history)), MOST_GOOD)
    order = sorted(range(len(history)), key=lambda place: -history[place].accuracy)
    good = set(order[:count])
    parts: tuple[list[Observation], list[Observation]] = ([], [])
    for place, trial in enumerate(history):
        parts[place not in good].append(trial)
    return parts


def _density(choices: Sequence[int], values: Sequence[int | None]) -> Floats:
    """Probability of each choice: a mixture with a component for each observed value, and a uniform prior."""
    places = {choice: place for place, choice in enumerate(choices)}
    seen = [places[value] for value in values if value in places]
    parts = np.full((len(seen) + 1, len(choices)), 1 / (len(seen) + 1))
    parts[np.arange(len(seen)), seen] += 1
    weights = np.append(_weights(len(seen)), 1.0)
    density: Floats = (weights / weights.sum()) @ (parts / parts.sum(axis=1, keepdims=True))
    return density / density.sum()


def _weights(count: int) -> Floats:
    """Weight of each observation: 1 for the newest, linearly less for older ones."""
    if count < RECENT:
        return np.ones(count)
    return np.concatenate([np.linspace(1 / count, 1, count - RECENT), np.ones(RECENT)])
