"""The folder of a search: the journal of its trials, and the weights of trials that can still become parents."""

import shutil
import socket
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from time import sleep

from hpcai.errors import DataError, InputError
from hpcai.record.trial import Trial
from hpcai.report.checksums import sha256_of
from hpcai.search import journal
from hpcai.search.paths import JOURNAL
from hpcai.search.weights_file import weights_file

VISIBLE_WITHIN, PAUSE = 10.0, 0.1  # seconds that a file system may take to show a folder to another node
MOST_COMPARED = 2**30  # bytes of weights that rank 0 compares with their digests before a search goes on
REMOVE_EVERY = 16  # trials, at least, from one removal of weights to the next


def _all_trials() -> set[int]:
    return set()


def _refused(path: Path, trial: Trial, what: str | None) -> DataError:
    allowed = f"its weights, of SHA-256 {trial.weights_sha256}"
    return DataError(f"{path}: {what}; trials can descend from trial {trial.id}; allowed: {allowed}")


class SearchStorage:
    """Rank 0 writes the folder, except for the weights; all leaders read it.

    `needed` returns the numbers of the trials whose weights are kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.needed: Callable[[], set[int]] = _all_trials
        self._stored: set[int] = set()
        self._count = 0
        self._ending = False
        self._appended = sha256()

    def create(self) -> None:
        """Make the folder, empty. DataError where that fails."""
        try:
            if self.folder.is_dir():
                shutil.rmtree(self.folder)
            self.folder.mkdir(parents=True)
        except OSError as error:
            raise DataError(f"cannot make {self.folder.absolute()}: {error.strerror}") from None

    def restore(self, trials: Sequence[Trial], lines: Iterable[bytes]) -> None:
        """Go on after trials of an earlier job, and their lines; weights of others are removed, half written ones too.

        DataError where that fails.
        """
        self._count = len(trials)
        self._stored = {trial.id for trial in trials if weights_file(self.folder, trial.id).exists()}
        for text in lines:
            self._appended.update(text + b"\n")
        kept = {weights_file(self.folder, number) for number in self._stored}
        try:
            for path in {*self.folder.glob("*.safetensors"), *self.folder.glob(".*.safetensors")} - kept:
                path.unlink()
        except OSError as error:
            raise DataError(f"{error.filename}: {error.strerror}") from None

    def check_weights(self, trials: Iterable[Trial]) -> None:
        """DataError where a trial that can be a parent has not the weights that it ended with.

        All have to be there; so many bytes of them are compared. Readers of the others compare the files' own digests.
        """
        needed, left = self.needed(), MOST_COMPARED
        for trial in trials:
            if trial.id in needed and trial.weights_sha256:
                path = weights_file(self.folder, trial.id)
                try:
                    left -= path.stat().st_size
                    altered = left >= 0 and sha256_of(path) != trial.weights_sha256
                except OSError as error:
                    raise _refused(path, trial, str(error.strerror)) from None
                if altered:
                    raise _refused(path, trial, "altered")

    def check_visible(self) -> None:
        """InputError where this node does not see the folder."""
        for _ in range(int(VISIBLE_WITHIN / PAUSE)):
            if self.folder.is_dir():
                return
            sleep(PAUSE)
        raise InputError(
            f"{socket.gethostname()} does not see {self.folder.absolute()}, which rank 0 has made; "
            "allowed: a directory that all nodes share, because ranks read their parents' weights from it"
        )

    def append(self, trial: int, text: bytes, cut: bool = False) -> None:
        """Append the line of a trial to the journal, and now and then remove weights that are no longer needed.

        cut: whether the end of the job or search cut it: then no more are removed, since a resumed search trains it
        anew, from the weights that it began with.
        """
        journal.append_line(self.folder / JOURNAL, trial, text)
        self._appended.update(text + b"\n")
        self._stored.add(trial)
        self._count += 1
        self._ending |= cut
        if self._count % REMOVE_EVERY == 0 and not self._ending:
            unneeded = self._stored - self.needed()
            self._stored -= unneeded
            for number in unneeded:
                weights_file(self.folder, number).unlink(missing_ok=True)

    @property
    def appended_sha256(self) -> str:
        """SHA-256 (hexadecimal) of all lines appended: what the journal should have."""
        return self._appended.hexdigest()

    def trials(self) -> list[Trial]:
        """All trials that returned, by number."""
        path = self.folder / JOURNAL
        return sorted(journal.read(path), key=lambda trial: trial.id) if path.exists() else []
