"""Measures `[errors]` in the same way as `[ensemble]`."""

from collections.abc import Sequence

import torch
from msgspec import convert, structs

from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import World
from hpcai.data.image_dataset import Dataset
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset as Description
from hpcai.record.training import StoppedTraining, TrainingRaw
from hpcai.results.measured import Stopped
from hpcai.train.loop import Training
from hpcai.train.state import CurvePoint
from hpcai.training import stages
from hpcai.training.totals import members_of
from hpcai.workloads.ensemble.measure import Classification
from hpcai.workloads.ensemble.record import Ensemble
from toy_training import QUALITY
from toy_training.record import ErrorsRaw, ErrorValidation, StoppedErrors


def run(
    case: Case, world: World, device: torch.device, report: stages.Report, shutdown: Shutdown, folder: str = ""
) -> ErrorsRaw | Stopped | None:
    """Measure one case, as `stages.run` does."""
    return stages.run(Errors(case, folder), case, world, device, report, shutdown, folder)


class Errors(Classification):
    """Classification whose models are compared by their wrong samples."""

    def describe(self, dataset: Dataset) -> Description:
        """The ceiling is the error of the best possible classifier."""
        found = super().describe(dataset)
        return structs.replace(found, ceiling=None if found.ceiling is None else 1 - found.ceiling)

    def curve(self, points: Sequence[CurvePoint]) -> tuple[ErrorValidation, ...]:
        return convert(points, tuple[ErrorValidation, ...], from_attributes=True)

    def raw(
        self, shared: TrainingRaw, curve: Sequence[ErrorValidation], together: Ensemble, training: Training
    ) -> ErrorsRaw:
        members = members_of(QUALITY, training.group, [entry.counted - entry.correct for entry in curve])
        first = training.group.active.bcast(tuple(curve))
        return ErrorsRaw(**stages.with_shared(shared), curve=first, members=members, ensemble=together)

    def stopped(self, shared: StoppedTraining, curve: Sequence[ErrorValidation]) -> StoppedErrors:
        return StoppedErrors(**stages.with_shared(shared), curve=tuple(curve))
