"""Extreme weather found in climate fields by an ensemble of P detectors, each trained by Q ranks (HPC AI500)."""

from pathlib import Path
from typing import Any

import torch

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.bootstrap import sampler
from hpcai.data.order import Shard, ValidationShard
from hpcai.data.philox import Purpose, seed_of
from hpcai.data.weather.weather_dataset import Weather, description
from hpcai.data.weather.weather_loader import Loader
from hpcai.detections import stored
from hpcai.formulas import score
from hpcai.inputfile import Case
from hpcai.models.detection.detector import build
from hpcai.networks.graph import Graph
from hpcai.record.record import as_json
from hpcai.train import fusing
from hpcai.train import precision as precisions
from hpcai.train.detecting import DetectionValidation
from hpcai.train.execution import executed_as
from hpcai.train.loop import Training
from hpcai.train.objective import Detection
from hpcai.train.optimisers import sgd
from hpcai.train.proof import noise
from hpcai.train.recipe import Recipe
from hpcai.train.state import TrainingState
from hpcai.training import stages
from hpcai.training.assembly import placed
from hpcai.training.groups import Measurement, Stopped
from hpcai.workloads.weather import detections_file


def run(
    case: Case, seed: int, world: World, device: torch.device, tell: stages.Tell, shutdown: Shutdown, folder: str
) -> Measurement | Stopped | None:
    """Measure one case, as `stages.run` does; what the ensemble has found is written into the folder, on rank 0."""
    return stages.run(Finding(Path(folder), case.index), case, seed, world, device, tell, shutdown)


class Finding:
    """Weather is found in frames; what the models find is fused."""

    def __init__(self, folder: Path, index: int) -> None:
        self._folder, self._index = folder, index
        self._about = stored.About(())

    def open(self, case: Case, group: Group) -> Weather:
        return catalog.open_weather_for(case.data_settings, comm=group.active)

    def describe(self, dataset: Weather) -> Measurement:
        return as_json(description(dataset))

    def assemble(
        self, case: Case, seed: int, group: Group, device: torch.device, dataset: Weather, graph: Graph
    ) -> Training:
        self._about = stored.About(dataset.classes, getattr(dataset.validation, "moments", None))
        return assembled(case, seed, group, device, dataset, graph)

    def judge(self, trained: Training, group: Group, shutdown: Shutdown) -> Measurement:
        validation: Any = trained.validation
        loader: Any = trained.loader
        numbers, found = fusing.judge(trained.state.module, group, validation, loader, trained.sampler, shutdown)
        if shutdown.agreed(group.active):
            return {}
        path = self._folder / stored.name(self._index)
        digest = detections_file.write(found, validation.shard.n, path, self._about, group.active)
        return {**numbers, "detections_sha256": digest, "loading": _loading(trained, group)}

    def told(self, entry: Measurement) -> str:
        return f"mAP {score.mean_precision(entry['average_precision']):.3f}"


def assembled(case: Case, seed: int, group: Group, device: torch.device, dataset: Weather, graph: Graph) -> Training:
    """The training of this rank's detector, ready to warm up. Collective over the group."""
    coordinates, recipe = group.coordinates, Recipe.of(case.settings)
    module = placed(build(graph, seed_of(seed, Purpose.WEIGHTS, coordinates.group)), case, device)
    draws = sampler(case["SAMPLER"], len(dataset.train), seed, coordinates.group, group.groups)
    optimiser = sgd(module, recipe)
    state = TrainingState(module, optimiser, device, precisions.scaler(case["PRECISION"], optimiser, device))
    loaders: list[Any] = [
        Loader(dataset, half, device, batch=recipe.batch) for half in (dataset.train, dataset.validation)
    ]
    judged = ValidationShard(len(dataset.validation), coordinates.member, group.degree, recipe.batch)
    validation: Any = DetectionValidation(loaders[1], judged, len(dataset.classes))
    shard = Shard(draws.size, coordinates.member, group.degree, recipe.batch)
    execution = executed_as("off", module, group, device)
    known, objective = noise(case["PRECISION"], case["KERNELS"]), Detection(seed, coordinates.group)
    return Training(
        state, execution, recipe, draws, shard, loaders[0], validation, group, seed, known, objective=objective
    )


def _loading(trained: Training, group: Group) -> dict[str, float]:
    """What loading the training frames took in the timed region, summed over all active ranks."""
    names = ("bytes_read", "read_seconds", "decompress_seconds", "load_seconds")
    return {name: group.active.allreduce(trained.state.progress.loading[name]) for name in names}
