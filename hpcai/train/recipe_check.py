"""Check of the recipe that an audited step really had against that of the input's KEYs alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from hpcai.formulas.score import LARGEST
from hpcai.frozen import recipe
from hpcai.frozen.recipe import Settings
from hpcai.train.loss_check import deviation, loss_deviations
from hpcai.train.objective import Objective

_RATE, _DECAY = "lr", "weight_decay"


class RecipeCheck:
    """What the optimiser had in audited steps of an epoch: a copy of its groups' options in each."""

    def __init__(self, settings: Settings, draws: int, classes: int) -> None:
        """draws: of an epoch of this model. classes: of the data."""
        self._settings, self._draws, self._classes = settings, draws, classes
        self._steps_per_epoch = recipe.steps(settings, draws)
        self._noted: list[tuple[int, int, str, list[dict[str, Any]]]] = []

    def note(self, step: int, samples: int, optimiser: torch.optim.Optimizer) -> None:
        """Copy the options of a step of the epoch, and the samples of this rank, in microseconds."""
        self._noted.append((step, samples, type(optimiser).__name__, [dict(group) for group in optimiser.param_groups]))

    def deviations(self, epoch: int, objective: Objective) -> Iterator[tuple[int, float, str]]:
        """Of each noted step: the step, its largest relative deviation, and of what. Forgets the steps."""
        noted, self._noted = self._noted, []
        loss = dict(loss_deviations(self._settings, objective, self._classes)) if noted else {}
        for step, samples, name, groups in noted:
            number = epoch * self._steps_per_epoch + step
            parts = [self._batch(step, samples), loss]
            parts += [self._group(number, name, group) for group in groups]
            worst, what = max((value, what) for part in parts for what, value in part.items())
            yield step, worst, what

    def _batch(self, step: int, samples: int) -> dict[str, float]:
        return {"batch": deviation(samples, recipe.step_samples(self._settings, step, self._draws))}

    def _group(self, number: int, name: str, group: Mapping[str, Any]) -> dict[str, float]:
        """Deviations of one group of parameters."""
        expected_name, options = recipe.optimiser(self._settings)
        found = {option: deviation(_option(group, option), value) for option, value in options.items()}
        found["optimiser"] = 0.0 if name.lower() == expected_name.lower() else LARGEST
        found["rate"] = deviation(group[_RATE], recipe.rate(self._settings, number, self._steps_per_epoch))
        decays = {recipe.decay(self._settings, parameter.ndim) for parameter in group["params"]}
        found["decay"] = max((deviation(group[_DECAY], decay) for decay in decays), default=0.0)
        return found


def _option(group: Mapping[str, Any], name: str) -> float:
    """An option of a group, 0 if it has none of that name; `betas.0` is the first of a pair."""
    first, _, place = name.partition(".")
    value = group.get(first, 0.0)
    return float(value[int(place)] if place else value)
