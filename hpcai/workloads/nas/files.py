"""Further files of a search: trials.csv."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from hpcai.inputfile import Case
from hpcai.report.entries import comma_separated
from hpcai.workloads.nas.record import SearchRow, TrialRow

TEXTS = ("trials.csv",)


def texts(tests: Sequence[SearchRow]) -> dict[str, str]:
    """trials.csv: the trials of all searches with the number of their test; hyper-parameters one by one."""
    lines = [{"test": test.index, **_cells(trial)} for test in tests for trial in test.trials]
    return {TEXTS[0]: comma_separated(list(lines[0]), lines)} if lines else {}


def _cells(trial: TrialRow) -> dict[str, object]:
    cells: dict[str, object] = {}
    for name, value in structs.asdict(trial).items():
        cells |= structs.asdict(value) if name == "hyperparameters" else {name: value}
    return cells


def names(test: SearchRow) -> list[str]:
    """Further files of a test: none that is compared."""
    return []


def differences(folder: Path, case: Case, test: SearchRow) -> Iterator[str]:
    """Differences of further files: there are none."""
    return iter(())
