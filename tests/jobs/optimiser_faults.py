"""Faults of optimisers in the real program: every training of a test has one."""

from collections.abc import Callable
from functools import partial
from typing import Any

from optimiser_changes import FAULTS, Change
from planting import Fault, replaced

from hpcai.training import assembly

CHANGES = {name: change for faults in FAULTS.values() for name, change in faults.items()}


def _in_every_training(change: Change) -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        def training_of(*arguments: Any, **keywords: Any) -> Any:
            made = genuine(*arguments, **keywords)
            change(made)
            return made

        return training_of

    return replaced(assembly, "training_of", make)


def __getattr__(name: str) -> Callable[[], Fault]:
    """The fault of a name, as in the other modules of faults."""
    if name not in CHANGES:
        raise AttributeError(name)
    return partial(_in_every_training, CHANGES[name])
