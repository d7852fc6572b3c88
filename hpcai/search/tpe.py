"""Hyper-parameters that are worth trying next, by a tree-structured Parzen estimator over lists of choices.

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
RECENT = 25  # trials that count whole; where there are more, older ones count less

Space = Mapping[str, Sequence[int]]  # the values that each hyper-parameter may have
Floats = NDArray[np.float64]


class Tried(NamedTuple):
    """What a trial was given, and the accuracy it reached."""

    values: Mapping[str, int]
    accuracy: float


def proposed(space: Space, history: Sequence[Tried], seed: int) -> dict[str, int]:
    """The values to try next; higher accuracies are better. A function of space, history in order, and seed alone."""
    generator = np.random.Generator(np.random.Philox([seed, len(history)]))
    return {name: _chosen(name, choices, history, generator) for name, choices in space.items()}


def _chosen(name: str, choices: Sequence[int], history: Sequence[Tried], generator: np.random.Generator) -> int:
    """Of some candidates that are likely among the good trials, the one that is least likely among the others."""
    good, bad = (_likelihood(choices, [trial.values.get(name) for trial in part]) for part in divided(history))
    candidates = generator.choice(len(choices), CANDIDATES, p=good)
    return choices[candidates[np.argmax(good[candidates] / bad[candidates])]]


def divided(history: Sequence[Tried]) -> tuple[list[Tried], list[Tried]]:
    """The best tenth of the trials, and the others, each in the order of the history."""
    count = min(ceil(GOOD_SHARE * len(history)), MOST_GOOD)
    order = sorted(range(len(history)), key=lambda place: -history[place].accuracy)
    good = set(order[:count])
    parts: tuple[list[Tried], list[Tried]] = ([], [])
    for place, trial in enumerate(history):
        parts[place not in good].append(trial)
    return parts


def _likelihood(choices: Sequence[int], values: Sequence[int | None]) -> Floats:
    """Of each choice: a mixture with a part for each value that was tried, and an even one before all."""
    places = {choice: place for place, choice in enumerate(choices)}
    seen = [places[value] for value in values if value in places]
    parts = np.full((len(seen) + 1, len(choices)), 1 / (len(seen) + 1))
    parts[np.arange(len(seen)), seen] += 1
    weights = np.append(_weights(len(seen)), 1.0)
    likelihood: Floats = (weights / weights.sum()) @ (parts / parts.sum(axis=1, keepdims=True))
    return likelihood / likelihood.sum()


def _weights(count: int) -> Floats:
    """The newest count whole, those before less and less."""
    if count < RECENT:
        return np.ones(count)
    return np.concatenate([np.linspace(1 / count, 1, count - RECENT), np.ones(RECENT)])
