"""Records of `[errors]`: those of `[ensemble]`, whose validations have an error for their quality."""

from typing import Annotated, Literal

from hpcai.record.dataset import ImageValidation
from hpcai.record.record import about
from hpcai.record.training import StoppedTraining, TrainingRow
from hpcai.workloads.ensemble.record import EnsembleRaw


class ErrorValidation(ImageValidation, kw_only=True):
    """One validation of a classifier."""

    def quality(self, samples: int) -> float:
        """The share of wrong samples."""
        return 1 - super().quality(samples)


class ErrorsRaw(EnsembleRaw, kw_only=True):
    """Raw measurements; `members` are counts of wrong samples."""

    curve: Annotated[tuple[ErrorValidation, ...], about("validations of the first model")]


class ErrorsRow(TrainingRow, kw_only=True):
    """A test of `[errors]`."""

    workload: Literal["errors"] = "errors"
    raw: Annotated[ErrorsRaw, about("raw measurements")]


class StoppedErrors(StoppedTraining, kw_only=True):
    """A test of `[errors]` in which the run was broken off."""

    curve: Annotated[tuple[ErrorValidation, ...], about("validations of the first model")]


ENTRY, STOPPED = ErrorsRow, StoppedErrors
