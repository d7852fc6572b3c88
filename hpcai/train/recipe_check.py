"""Check of the recipe that an audited step really had against that of the input's KEYs alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from hpcai.formulas.score import LARGEST
from hpcai.frozen import recipe
from hpcai.frozen.recipe import Settings
from hpcai.train.objective import Classification, Objective

_RATE, _DECAY = "lr", "weight_decay"
_LOGITS = ((2.0, -1.0, 0.5), (0.25, 3.0, -2.0))
_LABELS = (0, 2)


class RecipeCheck:
    """What the optimiser had in audited steps of an epoch: a copy of its groups' options in each."""

    def __init__(self, settings: Settings, draws: int) -> None:
        """draws: of an epoch of this model."""
        self._settings, self._draws = settings, draws
        self._steps_per_epoch = recipe.steps(settings, draws)
        self._noted: list[tuple[int, int, str, list[dict[str, Any]]]] = []

    def note(self, step: int, samples: int, optimiser: torch.optim.Optimizer) -> None:
        """Copy the options of a step of the epoch, and the samples of this rank, in microseconds."""
        self._noted.append((step, samples, type(optimiser).__name__, [dict(group) for group in optimiser.param_groups]))

    def deviations(self, epoch: int, objective: Objective) -> Iterator[tuple[int, float, str]]:
        """Of each noted step: the step, its largest relative deviation, and of what. Forgets the steps."""
        noted, self._noted = self._noted, []
        for step, samples, name, groups in noted:
            number = epoch * self._steps_per_epoch + step
            parts = [self._batch(step, samples), _loss(self._settings, objective)]
            parts += [self._group(number, name, group) for group in groups]
            worst, what = max((value, what) for part in parts for what, value in part.items())
            yield step, worst, what

    def _batch(self, step: int, samples: int) -> dict[str, float]:
        return {"batch": _deviation(samples, recipe.step_samples(self._settings, step, self._draws))}

    def _group(self, number: int, name: str, group: Mapping[str, Any]) -> dict[str, float]:
        """Deviations of one group of parameters."""
        expected_name, options = recipe.optimiser(self._settings)
        found = {option: _deviation(_option(group, option), value) for option, value in options.items()}
        found["optimiser"] = 0.0 if name.lower() == expected_name.lower() else LARGEST
        found["rate"] = _deviation(group[_RATE], recipe.rate(self._settings, number, self._steps_per_epoch))
        decays = {recipe.decay(self._settings, parameter.ndim) for parameter in group["params"]}
        found["decay"] = max((_deviation(group[_DECAY], decay) for decay in decays), default=0.0)
        return found


def _option(group: Mapping[str, Any], name: str) -> float:
    """An option of a group, 0 if it has none of that name; `betas.0` is the first of a pair."""
    first, _, place = name.partition(".")
    value = group.get(first, 0.0)
    return float(value[int(place)] if place else value)


def _loss(settings: Settings, objective: Objective) -> dict[str, float]:
    """Deviation of a classification's loss of known logits, which shows its smoothing."""
    if not isinstance(objective, Classification) and "SMOOTHING" not in settings:
        return {}
    logits, labels = torch.tensor(_LOGITS, dtype=torch.float64), torch.tensor(_LABELS)
    loss = float(objective(lambda x: x, logits, labels, 0))
    expected = recipe.cross_entropy(settings, np.array(_LOGITS), np.array(_LABELS))
    return {"loss by SMOOTHING": _deviation(loss, expected)}


def _deviation(found: float, expected: float) -> float:
    """Relative, of the larger one; 0 if both are equal, the largest if one is no number."""
    if found == expected:
        return 0.0
    share = abs(found - expected) / max(abs(found), abs(expected))
    return share if share <= LARGEST else LARGEST
