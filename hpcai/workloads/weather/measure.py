"""Measures extreme weather detection by an ensemble of P detectors, each trained by Q ranks (HPC AI500)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import convert

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.bootstrap import sampler
from hpcai.data.order import Shard, ValidationShard
from hpcai.data.philox import Purpose, seed_of
from hpcai.data.weather.weather_dataset import Weather, description
from hpcai.data.weather.weather_loader import Loader
from hpcai.detections import detection_tables
from hpcai.formulas.score import mean_precision
from hpcai.inputfile import Case
from hpcai.models.detection.detector import build
from hpcai.networks.graph import Graph
from hpcai.record.dataset import BoxValidation
from hpcai.record.dataset import Dataset as Description
from hpcai.record.training import StoppedTraining, TrainingRaw
from hpcai.results.measured import Stopped
from hpcai.train import detector_ensemble
from hpcai.train import objective as objectives
from hpcai.train.communication import communication_of
from hpcai.train.compiled_execution import build_execution
from hpcai.train.detection_validation import DetectionValidation
from hpcai.train.loop import Training
from hpcai.train.recipe import Recipe
from hpcai.train.replay import rounding_allowance
from hpcai.train.state import CurvePoint, training_state
from hpcai.training import stages
from hpcai.training.assembly import placed
from hpcai.training.content import check_contents
from hpcai.training.totals import members_of
from hpcai.workloads.weather import QUALITY, detections_file
from hpcai.workloads.weather.record import Detections, FieldLoading, StoppedWeather, WeatherRaw


def run(
    case: Case, world: World, device: torch.device, report: stages.Report, shutdown: Shutdown, folder: str
) -> WeatherRaw | Stopped | None:
    """Measure one case, as `stages.run` does; the ensemble's detections are written into the folder, on rank 0."""
    return stages.run(Detection(Path(folder), case.index), case, world, device, report, shutdown, folder)


class Detection:
    """Extreme weather detection; the detections of the models are fused."""

    loading = FieldLoading

    def __init__(self, folder: Path, index: int) -> None:
        self._folder, self._index = folder, index
        self._about = detection_tables.Metadata(())

    def open(self, case: Case, group: Group) -> Weather:
        """The dataset, the same on every rank."""
        return catalog.open_weather_for(case.data_settings, comm=group.active)

    def describe(self, dataset: Weather) -> Description:
        """The dataset's record in a result."""
        return description(dataset)

    def assemble(self, case: Case, group: Group, device: torch.device, dataset: Weather, graph: Graph) -> Training:
        """The training of this rank's model, ready to warm up."""
        self._about = detection_tables.Metadata(dataset.classes, getattr(dataset.validation, "moments", None))
        return model_training(case, group, device, dataset, graph)

    def evaluate(self, trained: Training, group: Group, shutdown: Shutdown) -> tuple[Detections, int] | None:
        """Evaluation of the ensemble; None after a shutdown."""
        validation: Any = trained.validation
        loader: Any = trained.loader
        module, draws = trained.state.module, trained.sampler
        quality, found = detector_ensemble.evaluate(module, group, validation, loader, draws, shutdown)
        if shutdown.agreed(group.active):
            return None
        path = self._folder / detection_tables.name(self._index)
        together = Detections(
            precision=quality.precision,
            loose_precision=quality.loose_precision,
            true_boxes=quality.true_boxes,
            agreement=quality.agreement,
            bag_evaluated=quality.bag_evaluated,
            bag_precision=quality.bag_precision,
            sha256=detections_file.write(found, validation.shard.n, path, self._about, group.active),
        )
        return together, quality.validation_miscounted

    def curve(self, points: Sequence[CurvePoint]) -> tuple[BoxValidation, ...]:
        """The validation curve of this rank's model."""
        return convert(points, tuple[BoxValidation, ...], from_attributes=True)

    def quality(self, entry: BoxValidation, samples: int) -> str:
        """Mean average precision of one validation, as text."""
        return f"mAP {entry.quality(samples):.3f}"

    def raw(
        self, shared: TrainingRaw, curve: Sequence[BoxValidation], together: Detections, training: Training
    ) -> WeatherRaw:
        """The raw measurements; `curve` is of this rank's model."""
        group = training.group
        members = members_of(QUALITY, group, [mean_precision(entry.average_precision) for entry in curve])
        return WeatherRaw(
            **stages.with_shared(shared),
            curve=group.active.bcast(tuple(curve)),
            members=members,
            ensemble=together,
        )

    def stopped(self, shared: StoppedTraining, curve: Sequence[BoxValidation]) -> StoppedWeather:
        """The measurements up to a shutdown."""
        return StoppedWeather(**stages.with_shared(shared), curve=tuple(curve))


def model_training(case: Case, group: Group, device: torch.device, dataset: Weather, graph: Graph) -> Training:
    """The training of this rank's detector, ready to warm up. Collective over the group."""
    coordinates, recipe, seed = group.coordinates, Recipe.of(case.settings), case.seed
    module = placed(build(graph, seed_of(seed, Purpose.WEIGHTS, coordinates.group)), case, device)
    draws = sampler(case.sampler, len(dataset.train), seed, coordinates.group, group.planned)
    state = training_state(module, recipe, case.precision, device)
    loaders: list[Any] = [
        Loader(dataset, half, device, batch=recipe.batch) for half in (dataset.train, dataset.validation)
    ]
    evaluated = ValidationShard(len(dataset.validation), coordinates.member, group.degree, recipe.batch)
    validation: Any = DetectionValidation(loaders[1], evaluated, len(dataset.classes))
    shard = Shard(draws.size, coordinates.member, group.degree, recipe.batch)
    execution = build_execution("off", module, group, device, communication_of(case, group, device))
    known, objective = (
        rounding_allowance(case.precision, case.kernels),
        objectives.Detection(seed, coordinates.group),
    )
    training = Training(
        state, execution, recipe, draws, shard, loaders[0], validation, group, seed, known, objective=objective
    )
    check_contents(training, case, dataset)
    return training
