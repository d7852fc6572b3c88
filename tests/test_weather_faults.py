"""The shipped weather distinguishes right trainings, which reach its target, from wrong ones, which stay below half.

What one model on all frames reached, seeds 1 to 6, LEARNRATE 0.32 to 0.45: right 0.74 to 0.85; with x and y of the
boxes exchanged, without the losses of the proposals, and with a frozen proposal network, 0.00 to 0.01; with the
channels shifted by one 0.05 to 0.23. In other wrong orders of the channels 27 trials of 36 stayed below 0.4, the others
reached 0.41 to 0.55: storms are visible in more than one field.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tiny import CPU, alone, unending

from hpcai import networks
from hpcai.clock import Phases
from hpcai.data import catalog
from hpcai.data.weather.weather_dataset import Boxes, Fields, Frames, Weather
from hpcai.data.weather.weather_loader import Batch, Loader
from hpcai.formulas import score
from hpcai.inputfile import Case, parse, shipped_text
from hpcai.models.detection import detector
from hpcai.train import state
from hpcai.train.loop import Training
from hpcai.workloads.weather import measure

Integers = np.ndarray[Any, np.dtype[np.int64]]
SHIFTED = np.roll(np.arange(16), 1)


class Remembered:
    """Frames that are generated once for all trainings."""

    def __init__(self, split: Frames) -> None:
        self._split = split
        self._known: dict[int, Fields] = {}

    def __len__(self) -> int:
        return len(self._split)

    def frames(self, indices: Integers) -> Fields:
        for index in set(indices.tolist()) - self._known.keys():
            self._known[index] = self._split.frames(np.array([index]))[0]
        return np.stack([self._known[index] for index in indices.tolist()])

    def boxes(self, indices: Integers) -> Boxes:
        return self._split.boxes(indices)


class WhereTrained(Loader):
    """Alters training batches, not validation batches."""

    change: Callable[[Batch], Batch]

    def __call__(self, batches: Any, transforms: Any = None) -> Iterator[Batch]:
        for batch in super().__call__(batches, transforms):
            yield batch if transforms is None else type(self).change(batch)


def altered(change: Callable[[Batch], Batch]) -> AbstractContextManager[Any]:
    return patch.object(measure, "Loader", type("Altered", (WhereTrained,), {"change": staticmethod(change)}))


def channels_shifted() -> AbstractContextManager[Any]:
    return altered(lambda batch: batch._replace(x=batch.x[:, SHIFTED]))


def x_and_y_exchanged() -> AbstractContextManager[Any]:
    return altered(lambda batch: batch._replace(y=batch.y[..., [1, 0, 3, 2, 4]]))


def proposals_frozen() -> AbstractContextManager[Any]:
    genuine = state.build_optimiser

    def build(rule: Any, module: torch.nn.Module, rate: float) -> torch.optim.Optimizer:
        for parameter in proposing(module):
            parameter.requires_grad_(False)
        return genuine(rule, module, rate)

    return patch.object(state, "build_optimiser", build)


def proposals_without_losses() -> AbstractContextManager[Any]:
    genuine = detector._anchor_losses
    return patch.object(detector, "_anchor_losses", lambda *args: tuple(0 * loss for loss in genuine(*args)))


def proposing(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters of the proposal network."""
    return [parameter for name, parameter in module.named_parameters() if name.startswith("proposals_")]


@pytest.fixture(scope="module")
def case() -> Case:
    """The shipped one, of one model on one rank, validated at its end."""
    problem = parse(shipped_text().encode(), [], 2, lambda spec: None, "input.dat")
    (shipped,) = (case for case in problem.cases(2) if case.workload == "weather")
    return replace(shipped, settings={**shipped.settings, "GROUPS": 1, "EVALUATE": shipped["EPOCHS"]})


@pytest.fixture(scope="module")
def data(case: Case) -> Weather:
    made = catalog.open_weather_for(case.data_settings)
    return replace(made, train=Remembered(made.train), validation=Remembered(made.validation))


def trained(case: Case, data: Weather, fault: AbstractContextManager[Any]) -> Training:
    """A finished training, assembled as in the workload."""
    with fault:
        graph = networks.for_data(case, data.shape, len(data.classes))
        training = measure.model_training(case, alone(), CPU, data, graph)
        training.run(Phases(CPU), unending())
    return training


@pytest.fixture(scope="module")
def right(case: Case, data: Weather) -> Training:
    return trained(case, data, nullcontext())


def quality(training: Training) -> float:
    (entry,) = training.state.progress.curve
    found = score.mean_precision(entry.average_precision)
    print(f"mAP {found:.3f}")
    return found


@pytest.mark.exhaustive
def test_a_right_training_reaches_the_target(right: Training, data: Weather) -> None:
    assert quality(right) >= data.target


# The longest of these trainings are for `make test-slow`.
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(channels_shifted, marks=pytest.mark.exhaustive),
        pytest.param(x_and_y_exchanged, marks=pytest.mark.exhaustive),
        pytest.param(proposals_without_losses, marks=pytest.mark.exhaustive),
    ],
    ids=lambda fault: fault.__name__,
)
def test_a_wrong_training_stays_below_half_of_the_target(
    case: Case, data: Weather, fault: Callable[[], AbstractContextManager[Any]]
) -> None:
    assert quality(trained(case, data, fault())) < data.target / 2


@pytest.mark.exhaustive
def test_a_frozen_proposal_network_stays_below_half_of_the_target(case: Case, data: Weather) -> None:
    training = trained(case, data, proposals_frozen())
    graph = networks.for_data(case, data.shape, len(data.classes))
    fresh = measure.model_training(case, alone(), CPU, data, graph).state.module
    module = training.state.module
    assert all(map(torch.equal, proposing(module), proposing(fresh))) and len(proposing(module)) == 6
    assert not any(map(torch.equal, module.buffers(), fresh.buffers()))
    assert quality(training) < data.target / 2


@pytest.mark.slow
def test_a_right_training_evaluated_on_shifted_channels_stays_below_half(right: Training, data: Weather) -> None:
    loader: Any = right.validation.loader

    def on_shifted_channels(batches: Any) -> Iterator[Batch]:
        return (batch._replace(x=batch.x[:, SHIFTED]) for batch in loader(batches))

    with patch.object(right.validation, "loader", on_shifted_channels):
        result = right.validation.run(right.execution.eval_module, right.group)
    assert score.mean_precision(result.average_precision) < data.target / 2
