"""The folder of a search: the history of its trials, and the weights that the good and the new ones ended with."""

import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import sleep
from typing import Any

from hpcai.errors import DataError, HpcaiError, InputError
from hpcai.formulas import trial_schedule
from hpcai.networks.morphism import KERNELS, from_json
from hpcai.search import journal
from hpcai.search.child_builder import weights_file

HISTORY = "history.jsonl"
SEEN_WITHIN, PAUSE = 10.0, 0.1  # seconds that a file system may take to show a folder to another node
BETWEEN = 16  # trials, at least, from one removal of weights to the next


def _everything() -> set[int]:
    return set()


class Archive:
    """Written by rank 0 but for the weights; read by all leaders. `wanted`: numbers of trials whose weights stay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wanted: Callable[[], set[int]] = _everything
        self._there: set[int] = set()
        self._count = 0

    def create(self) -> None:
        """Make the folder, empty."""
        try:
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise DataError(f"cannot make {self.folder.absolute()}: {error.strerror}") from None

    def check_seen(self) -> None:
        """InputError where this node does not see the folder."""
        for _ in range(int(SEEN_WITHIN / PAUSE)):
            if self.folder.is_dir():
                return
            sleep(PAUSE)
        raise InputError(
            f"{socket.gethostname()} does not see {self.folder.absolute()}, which rank 0 has made; "
            "allowed: a directory that all nodes share, for networks are handed on in it"
        )

    def record(self, id_: int, line: bytes) -> None:
        """A trial has come back: write its line, and now and then remove weights that nobody will want."""
        journal.write(self.folder / HISTORY, id_, line)
        self._there.add(id_)
        self._count += 1
        if self._count % BETWEEN == 0:
            gone = self._there - self.wanted()
            self._there -= gone
            for number in gone:
                weights_file(self.folder, number).unlink(missing_ok=True)

    def trials(self) -> list[journal.Trial]:
        """All trials that came back, by number."""
        path = self.folder / HISTORY
        return sorted(journal.read(path), key=lambda trial: trial.id) if path.exists() else []


def replayed(path: Path, workers: int) -> dict[int, dict[str, Any]]:
    """The trials of a recorded search by number, in the order in which they ended: a parent before those it led to.

    Each has the morphisms that lead to its parent. InputError if they are not those of so many groups.
    """
    chains: dict[int | None, list[dict[str, Any]]] = {None: []}
    found: dict[int, dict[str, Any]] = {}
    for trial in journal.read(path):
        number = trial_schedule.number(trial.round, trial.worker, workers)
        known = 0 <= trial.worker < workers and trial.parent in chains
        if trial.id != number or number in found or not known:
            raise InputError(f"{path}: trial {trial.id} is none of a search by {workers} groups; allowed: as recorded")
        if not _choices_are_sound(trial):
            raise InputError(f"{path}: trial {trial.id} has morphisms or hyper-parameters that no search proposes")
        found[number] = {**asdict(trial), "ancestry": chains[trial.parent]}
        chains[number] = [*chains[trial.parent], *trial.morphisms]
    if not found:
        raise InputError(f"{path} has no trial; allowed: the history of a search that has tried something")
    return found


def _choices_are_sound(trial: journal.Trial) -> bool:
    given = trial.hyperparameters
    whole = isinstance(given, dict) and {*given} == {"batch", "kernel"} and all(type(n) is int for n in given.values())
    try:
        morphisms = [from_json(each) for each in trial.morphisms]
    except (LookupError, TypeError, ValueError, AttributeError, HpcaiError):
        return False
    return whole and given["batch"] > 0 and given["kernel"] in KERNELS and len(morphisms) == len(trial.morphisms)
