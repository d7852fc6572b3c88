"""Replay of a recorded search: every worker gets its recorded trials again, each once its parent has returned."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path

from hpcai.errors import DataError, InputError
from hpcai.formulas.trial_schedule import number
from hpcai.inputfile.keys import keys_by_name
from hpcai.networks.morphism import Morphism
from hpcai.report import checksums
from hpcai.search import journal
from hpcai.search.messages import RecordedTrial


def read_recorded_trials(path: Path, workers: int) -> dict[int, RecordedTrial]:
    """The trials of a journal by number, in the order in which they ended: a parent before its descendants.

    InputError if they are not those of a search by so many groups, DataError for a line that is no trial, a last line
    that was cut, or a file that is not the one that SHA256SUMS of its result lists.
    """
    _check_digest(path)
    chains: dict[int | None, tuple[Morphism, ...]] = {None: ()}
    recorded: dict[int, RecordedTrial] = {}
    for trial in journal.read(path):
        id_ = number(trial.round, trial.worker, workers)
        if trial.hyperparameters.batch > (most := keys_by_name()["BATCH"].high):
            raise InputError(f"{path}: trial {trial.id} has batch {trial.hyperparameters.batch}; allowed: up to {most}")
        known = 0 <= trial.worker < workers and trial.parent in chains
        if trial.id != id_ or id_ in recorded or not known:
            raise InputError(f"{path}: trial {trial.id} is none of a search by {workers} groups; allowed: as recorded")
        ancestry = chains[trial.parent]
        recorded[id_] = RecordedTrial(
            id_, trial.worker, trial.round, trial.parent, ancestry, trial.morphisms, trial.hyperparameters
        )
        chains[id_] = ancestry + trial.morphisms
    if not recorded:
        raise InputError(f"{path} has no trial; allowed: the history of a search with at least one trial")
    return recorded


def _check_digest(path: Path) -> None:
    """DataError for a recording that is cut, or is not the one that SHA256SUMS of the run beside it lists."""
    folder = path.resolve().parent
    with suppress(OSError):  # the journal's reader says why it cannot be read
        if (data := path.read_bytes()) and not data.endswith(b"\n"):
            raise DataError(f"{path}: the last line is cut; allowed: a whole recording")
        listed = checksums.read(folder.parent / checksums.NAME).get(f"{folder.name}/{path.name}")
        if listed not in (None, sha256(data).hexdigest()):
            raise DataError(f"{path} is altered: {checksums.NAME} lists another SHA-256; allowed: the file of the run")


class RecordedTrials:
    """The recorded trials that have not been run again yet."""

    def __init__(self, recorded: Mapping[int, RecordedTrial], workers: int, trials: int = 0, rounds: int = 0) -> None:
        """`recorded`: trials by number, in the order in which they ended; `trials`, `rounds`: no limit if 0."""
        self._workers = workers
        self._left: dict[int, RecordedTrial] = {}
        self._returned: set[int] = set()
        reached = Counter[int]()
        for trial in islice(recorded.values(), trials or None):
            is_next = trial.round == reached[trial.worker] + 1 and not 0 < rounds < trial.round
            if is_next and not self._orphan(trial):
                reached[trial.worker] += 1
                self._left[trial.id] = trial
        self._children = Counter(trial.parent for trial in self._left.values())

    def trial(self, round_: int, worker: int) -> RecordedTrial | None:
        """The trial to run again; None if there is none left for this worker."""
        return self._left.get(number(round_, worker, self._workers))

    def awaited(self, round_: int, worker: int) -> int:
        """The number of the parent that has not returned yet; 0 if there is none to wait for."""
        trial = self.trial(round_, worker)
        parent = trial and trial.parent
        return parent if parent is not None and parent in self._left else 0

    def add(self, round_: int, id_: int, value: float, parent: bool, text: bytes) -> Iterable[int]:
        """Note a trial that returned; requests may wait for its number."""
        self._remove(id_)
        self._returned.add(id_)
        return [id_]

    def leave(self, worker: int, returned: int) -> None:
        """Remove a worker's trials after the round `returned`, and all that descend from them."""
        leaving = [(worker, returned)]
        while leaving:
            worker, returned = leaving.pop()
            for id_, trial in [*self._left.items()]:
                if trial.worker == worker and trial.round > returned:
                    self._remove(id_)
            leaving += [(trial.worker, trial.round - 1) for trial in self._left.values() if self._orphan(trial)]

    def needed(self) -> set[int]:
        """Numbers of the trials whose weights other trials still begin with."""
        return {id_ for id_, children in self._children.items() if id_ is not None and children > 0}

    def _orphan(self, trial: RecordedTrial) -> bool:
        return not (trial.parent is None or trial.parent in self._returned or trial.parent in self._left)

    def _remove(self, id_: int) -> None:
        self._children[self._left.pop(id_).parent] -= 1
