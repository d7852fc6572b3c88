"""Measures image classification by an ensemble of P models, each trained by Q ranks (HPC AI500 V3; V2: P = 1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import convert

from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data import catalog
from hpcai.data.image_dataset import Dataset, description
from hpcai.data.source import source_of
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.record.dataset import Dataset as Description
from hpcai.record.dataset import ImageValidation
from hpcai.record.sample_loading import Loading
from hpcai.record.training import StoppedTraining, TrainingRaw
from hpcai.results.measured import Stopped
from hpcai.train import classifier_ensemble
from hpcai.train.loop import Training
from hpcai.train.state import CurvePoint
from hpcai.training import stages
from hpcai.training.assembly import model_training
from hpcai.training.totals import members_of
from hpcai.workloads.ensemble import QUALITY, prediction_tables
from hpcai.workloads.ensemble.checks import ensemble_of
from hpcai.workloads.ensemble.predictions_file import PredictionsFile
from hpcai.workloads.ensemble.record import Ensemble, EnsembleRaw, StoppedEnsemble


def run(
    case: Case, world: World, device: torch.device, report: stages.Report, shutdown: Shutdown, folder: str = ""
) -> EnsembleRaw | Stopped | None:
    """Measure one case, as `stages.run` does."""
    return stages.run(Classification(case, folder), case, world, device, report, shutdown, folder)


class Classification:
    """Image classification; the ensemble's output is the mean of its models' outputs."""

    loading = Loading

    def __init__(self, case: Case, folder: str) -> None:
        """folder: of the result, for the file of predictions."""
        self._case, self._path = case, Path(folder) / prediction_tables.name(case.index)
        self._of: Any = None
        self._source: Any = None

    def open(self, case: Case, group: Group) -> Dataset:
        """The dataset, the same on every rank."""
        return catalog.open_for(case.data_settings)

    def describe(self, dataset: Dataset) -> Description:
        """The dataset's record in a result."""
        return description(dataset)

    def assemble(self, case: Case, group: Group, device: torch.device, dataset: Dataset, graph: Graph) -> Training:
        """The training of this rank's model, ready to warm up."""
        self._of = ensemble_of(case, self.describe(dataset))
        self._source = source_of(case).again(case.data_settings, dataset)
        return model_training(case, group, device, dataset, graph)

    def evaluate(self, trained: Training, group: Group, shutdown: Shutdown) -> tuple[Ensemble, int] | None:
        """Evaluation of the ensemble; None after a shutdown."""
        module, validation, loader = trained.execution.network, trained.validation, trained.loader
        file = PredictionsFile(self._case, group, self._of, self._source, self._path)
        votes = classifier_ensemble.evaluate(module, group, validation, loader, trained.sampler, shutdown, file.kept)
        if shutdown.agreed(group.active):
            return None
        together = Ensemble(
            correct=votes.correct,
            agreeing_pairs=votes.agreeing_pairs,
            bag_evaluated=votes.bag_evaluated,
            bag_correct=votes.bag_correct,
            recount=file.write(),
        )
        return together, votes.validation_miscounted

    def curve(self, points: Sequence[CurvePoint]) -> tuple[ImageValidation, ...]:
        """The validation curve of this rank's model."""
        return convert(points, tuple[ImageValidation, ...], from_attributes=True)

    def quality(self, entry: ImageValidation, samples: int) -> str:
        """Top-1 of one validation, as text."""
        return f"top-1 {entry.quality(samples):.3f}"

    def raw(
        self, shared: TrainingRaw, curve: Sequence[ImageValidation], together: Ensemble, training: Training
    ) -> EnsembleRaw:
        """The raw measurements; `curve` is of this rank's model."""
        members = members_of(QUALITY, training.group, [entry.correct for entry in curve])
        first = training.group.active.bcast(tuple(curve))
        return EnsembleRaw(**stages.with_shared(shared), curve=first, members=members, ensemble=together)

    def stopped(self, shared: StoppedTraining, curve: Sequence[ImageValidation]) -> StoppedEnsemble:
        """The measurements up to a shutdown."""
        return StoppedEnsemble(**stages.with_shared(shared), curve=tuple(curve))
