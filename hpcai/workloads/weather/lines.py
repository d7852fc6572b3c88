"""Printed block of a test of `[weather]`: that of any training, with average precision by class."""

from collections.abc import Iterator, Sequence

from hpcai.data.weather.layout import names
from hpcai.record.entry import Row
from hpcai.report.series import Table
from hpcai.report.text import score
from hpcai.report.training import training_block, training_series
from hpcai.workloads.weather.record import WeatherRow, WeatherScores


def block(entry: WeatherRow, rows: Sequence[Row] = ()) -> str:
    """One test."""
    return training_block(entry, "the formula and the events of a year", precision_lines(entry.scores))


def precision_lines(scores: WeatherScores) -> Iterator[str]:
    """Average precision of each class."""
    for name, precision in zip(names(len(scores.class_precision)), scores.class_precision, strict=True):
        yield score(f"AP at an overlap of 0.5, {name}", precision, "n/a, no box")


def series(entry: WeatherRow) -> Iterator[Table]:
    """Time series of the test, besides telemetry."""
    return training_series(entry.raw.curve, entry.raw.dataset.validation_samples)
