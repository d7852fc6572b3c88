"""Faults in the recipe of a training: other hyper-parameters than the input says, consistently used everywhere."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from planting import Fault, replaced

from hpcai.train import recipe
from hpcai.train.recipe import Recipe


def _by(**settings: Any) -> Fault:
    """Training and replay take the recipe of other settings."""

    def make(genuine: Callable[..., Recipe]) -> Any:
        return classmethod(lambda cls, given: genuine({**given, **settings}))

    return replaced(Recipe, "of", make)


def schedule_of_another_kind() -> Fault:
    return _by(SCHEDULE="linear")


def decay_of_zero() -> Fault:
    return _by(DECAY=0.0)


def momentum_of_a_half() -> Fault:
    return _by(MOMENTUM=0.5)


def smoothing_of_zero() -> Fault:
    return _by(SMOOTHING=0.0)


def rate_not_scaled() -> Fault:
    return patch.object(recipe.Recipe, "peak_rate", property(lambda self: self.learning_rate))


def warm_up_of_an_epoch() -> Fault:
    return _by(WARMUP=1.0)
