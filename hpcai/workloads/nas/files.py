"""Further files of a search: trials.csv; the history and the weights in a folder of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec import structs

from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.record.result import BrokenOff
from hpcai.report import checksums
from hpcai.report.entries import comma_separated
from hpcai.search import journal
from hpcai.search.paths import JOURNAL, search_folder, weights_name
from hpcai.workloads.nas.record import SearchMeasured, SearchRow, TrialRow

TEXTS = ("trials.csv",)
MOST_SHOWN = 5  # trials that differ


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
    """Further files of a test: the history of the search."""
    return [f"{search_folder(test.index)}/{JOURNAL}"]


def digests(test: SearchRow | BrokenOff) -> dict[str, str]:
    """SHA-256 by path of the weights of all trials, as they were written; most are removed during the search."""
    place, raw = search_folder(test.index), cast(SearchMeasured, test.raw)
    recorded = {trial.id: trial.weights_sha256 for trial in raw.trials}
    return {f"{place}/{weights_name(id_)}": digest for id_, digest in recorded.items() if digest}


def differences(folder: Path, case: Case, test: SearchRow) -> Iterator[str]:
    """Differences of a test's history and weights, as far as they are there, from the test."""
    yield from _differences(folder, test)


def stopped_differences(folder: Path, test: BrokenOff) -> Iterator[str]:
    """The same of a search in which the run was broken off."""
    yield from _differences(folder, test)


def _differences(folder: Path, test: SearchRow | BrokenOff) -> Iterator[str]:
    raw = cast(SearchMeasured, test.raw)
    path = folder / search_folder(test.index) / JOURNAL
    if path.exists():
        found = [*_history(path, raw)]
        yield from (f"{search_folder(test.index)}/{JOURNAL}: {reason}" for reason in found)
    listed = checksums.read(folder / checksums.NAME)  # which the verification compares with the files
    for name, digest in digests(test).items():
        if (folder / name).exists() and (listed.get(name) or checksums.sha256_of(folder / name)) != digest:
            yield f"{name}: not the weights that the trial ended with"


def _history(path: Path, raw: SearchMeasured) -> Iterator[str]:
    """Differences of a history from the trials of the result; of an older result without a digest of these alone."""
    try:
        stored = {trial.id: trial for trial in journal.read(path)}
    except DataError as error:
        yield f"cannot be read: {str(error).removeprefix(str(path)).lstrip(':, ')}"
        return
    expected = {trial.id: trial for trial in raw.trials}
    different = [id_ for id_ in sorted({*stored, *expected}) if stored.get(id_) != expected.get(id_)]
    yield from (f"trial {id_}: not what the result file says" for id_ in different[:MOST_SHOWN])
    if raw.history_sha256 and not different and checksums.sha256_of(path) != raw.history_sha256:
        yield "not the lines that the search appended"
