"""Printed block of a test of `[language]`."""

from collections.abc import Iterator, Sequence

from hpcai.record.entry import Row
from hpcai.report.series import Table
from hpcai.report.training import training_block, training_series
from hpcai.workloads.language.record import LanguageRow


def block(entry: LanguageRow, rows: Sequence[Row] = ()) -> str:
    """One test."""
    return training_block(entry, covered="the source and 64 sequences of each split")


def series(entry: LanguageRow) -> Iterator[Table]:
    """Time series of the test, besides telemetry."""
    return training_series(entry.raw.curve, entry.raw.dataset.validation_samples)
