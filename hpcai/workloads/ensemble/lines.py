"""Printed block of a test of `[ensemble]`."""

from collections.abc import Iterator, Sequence

from hpcai.record.entry import Row
from hpcai.report.series import Table
from hpcai.report.training import training_block, training_series
from hpcai.workloads.ensemble.record import EnsembleRow


def block(entry: EnsembleRow, rows: Sequence[Row] = ()) -> str:
    """One test."""
    return training_block(entry, covered="the formula and 64 samples of each split")


def series(entry: EnsembleRow) -> Iterator[Table]:
    """Time series of the test, besides telemetry."""
    return training_series(entry.raw.curve, entry.raw.dataset.validation_samples)
