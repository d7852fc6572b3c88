"""What is printed of a test of `[ensemble]`."""

from collections.abc import Sequence

from hpcai.record.entry import Row
from hpcai.report.training import training_block
from hpcai.workloads.ensemble.record import EnsembleRow


def block(entry: EnsembleRow, rows: Sequence[Row] = ()) -> str:
    """One test."""
    return training_block(entry, covered="the formula and 64 samples of each split")
