"""The printed lines of a test of `[errors]`."""

from collections.abc import Iterator

from hpcai.report.series import Table
from hpcai.report.training import training_block, training_series
from toy_training.record import ErrorsRow


def block(entry: ErrorsRow) -> str:
    """One test."""
    return training_block(entry, covered="the formula and 64 samples of each split")


def series(entry: ErrorsRow) -> Iterator[Table]:
    """The validations."""
    return training_series(entry.raw.curve, entry.raw.dataset.validation_samples)
