"""Freshness of every step, judged by a few elements: no gradient of an earlier step, and weights that move.

In the timed region a rank reads up to 8 neighbouring elements of each gradient, weight and state tensor; between epochs
they are judged. The places are drawn from the system's entropy, among those where gradients of the warm-up are not 0:
where maps are small, those of a kernel's border are 0 in every step.
"""

from collections.abc import Callable
from functools import cached_property
from secrets import randbelow
from typing import NamedTuple, cast

import numpy as np
import torch

from hpcai.kernels.fingerprint import ELEMENTS, LEAST
from hpcai.train.element_readers import GRADIENT, STATE, WEIGHT, Notes, Reader, Run, in_memory, reader
from hpcai.train.state import TrainingState
from hpcai.update_rules.rule import BeforeStep, UpdateRule, Vector

DRAWN = 32  # runs of a tensor, of which the one with most elements other than 0 is taken
MOST_STILL = 2  # spacings of a weight's type: a larger move changes the weight, however it is rounded


class StepFaults(NamedTuple):
    """Of an epoch: gradients of tensors that are missing or those of an earlier step, and tensors that had to move."""

    stale: int
    still: int


class StepElements:
    """Elements of this rank's tensors in each step of an epoch of up to `steps` steps.

    Memory: 8 bytes a step and tensor, allocated before the clock.
    """

    def __init__(self, state: TrainingState, rule: UpdateRule, steps: int) -> None:
        self._state, self._rule = state, rule
        self._weights: list[torch.Tensor] = list(state.module.parameters())
        self._runs = [_drawn(weight.numel()) for weight in self._weights]
        self._placed = [False] * len(self._weights)
        self._most, self._noted, self._missing, self._located = steps, 0, 0, False

    def place(self) -> None:
        """Take runs of elements whose gradients are not 0 in this step of a warm-up. Waits for the device."""
        for tensor, weight in enumerate(self._weights):
            if weight.grad is not None and not self._placed[tensor]:
                self._runs[tensor], self._placed[tensor] = _placed(weight.grad)

    @cached_property
    def _reader(self) -> Reader:
        kinds = STATE + len(self._rule.state)
        return reader(self._weights, self._runs, self._state.device, kinds, self._most)

    def begin(self) -> None:
        """An epoch begins or resumes."""
        self._noted = self._missing = 0
        self._locate()

    def _locate(self) -> None:
        """Find the tensors in memory; the optimiser's state exists from its first step on."""
        states = self._state.optimiser.state
        kept = [[states.get(weight, {}).get(name) for weight in self._weights] for name in self._rule.state]
        self._located = all(tensor is not None for tensors in kept for tensor in tensors)
        self._reader.begin([self._weights, *kept])

    def note(self) -> None:
        """Read the elements after a step, while its gradients exist."""
        gradients = [weight.grad for weight in self._weights]
        missing = sum([gradient is None for gradient in gradients])
        if self._noted < self._most and not missing:
            scaler = self._state.scaler
            self._reader.read(self._noted, cast(list[torch.Tensor], gradients), scaler.overflow if scaler else None)
        self._missing += missing
        self._noted += 1
        if not self._located:
            self._locate()

    def judged(self, first: int, rate: Callable[[int], float]) -> StepFaults:
        """Faults of the epoch's steps, the first of which is `first` of the training; `rate` of each by the recipe.

        Waits for the device.
        """
        notes = self._reader.notes(min(self._noted, self._most))
        still = sum(self._had_to_move(int(tensor), first, rate, notes) for tensor in np.flatnonzero(notes.still))
        return StepFaults(self._missing + _repeated(notes), still)

    def _had_to_move(self, tensor: int, first: int, rate: Callable[[int], float], notes: Notes) -> bool:
        """Whether a step would have moved an element of a tensor by more than rounding hides."""
        weight, rule, step = self._weights[tensor], self._rule, first + int(notes.step[tensor])
        decays = rule.decays(weight.ndim)
        names = dict(zip(rule.state, notes.elements[STATE:, tensor], strict=True))
        if (decays and rule.moves_by_norms) or not self._alike(weight):
            return False
        values = notes.elements[:, tensor]
        before = BeforeStep(values[WEIGHT], values[GRADIENT], 0.0, names, rate(step), step + 1, decays)
        sums = {name: names.get(name, terms.total(values[GRADIENT])) for name, terms in rule.sums(before).items()}
        if self._state.scaler and not sums.keys() <= names.keys():
            return False  # the gradients are multiplied by a loss scale that is not known
        with np.errstate(all="ignore"):
            return bool((np.abs(rule.move(before, sums)) > MOST_STILL * _spacing(values[WEIGHT], weight.dtype)).any())

    def _alike(self, weight: torch.Tensor) -> bool:
        """Whether the state of a weight has its elements in the same order in memory."""
        return all(self._state.optimiser.state[weight][name].stride() == weight.stride() for name in self._rule.state)


def _drawn(elements: int) -> Run:
    count = min(ELEMENTS, elements)
    return Run(randbelow(elements - count + 1), count)


def _placed(gradient: torch.Tensor) -> tuple[Run, bool]:
    """Of some runs of a gradient the one with most elements other than 0, and whether these are enough."""
    runs = [_drawn(gradient.numel()) for _ in range(DRAWN)]
    places = torch.tensor([range(run.first, run.first + run.length) for run in runs], device=gradient.device)
    known = (in_memory(gradient, Run(0, gradient.numel()))[places].abs() >= torch.finfo(gradient.dtype).tiny).sum(1)
    return runs[int(known.argmax())], int(known.max()) >= min(LEAST, gradient.numel())


def _repeated(notes: Notes) -> int:
    """Fingerprints, other than 0, of which a step before has the same for the same tensor."""
    ordered = np.sort(notes.fingerprints, axis=0)
    return int(np.count_nonzero((ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)))


def _spacing(values: Vector, kind: torch.dtype) -> Vector:
    """Distance of the next larger number of a type, of float64 values of that type."""
    about = torch.finfo(kind)
    _, exponent = np.frexp(np.maximum(np.abs(values), about.tiny))
    spacing: Vector = np.ldexp(about.eps, exponent - 1)
    return spacing
