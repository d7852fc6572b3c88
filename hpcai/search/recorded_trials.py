"""A recorded search that is tried again: every worker gets its trials back, each once its parent has ended."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from hpcai.formulas.trial_schedule import number

Json = dict[str, Any]


class Repetition:
    """The trials that are still to be tried again."""

    def __init__(self, recorded: Mapping[int, Json], workers: int, trials: int = 0, rounds: int = 0) -> None:
        """`recorded`: trials by number, in the order in which they ended; `trials`, `rounds`: no limit if 0."""
        self._workers = workers
        self._left: dict[int, Json] = {}
        self._back: set[int] = set()
        reached = Counter[int]()
        for trial in islice(recorded.values(), trials or None):
            next_ = trial["round"] == reached[trial["worker"]] + 1 and not 0 < rounds < trial["round"]
            if next_ and not self._orphan(trial):
                reached[trial["worker"]] += 1
                self._left[trial["id"]] = trial
        self._children = Counter(trial["parent"] for trial in self._left.values())

    def trial(self, round_: int, worker: int) -> Json | None:
        """What is to be tried again; None if there is no more for this worker."""
        return self._left.get(number(round_, worker, self._workers))

    def awaited(self, round_: int, worker: int) -> int:
        """The parent that has not come back yet; 0 if there is none to wait for."""
        trial = self.trial(round_, worker)
        parent = trial and trial["parent"]
        return parent if parent is not None and parent in self._left else 0

    def add(self, round_: int, id_: int, value: float, parent: bool, text: bytes) -> Iterable[int]:
        """A trial has come back; others may wait for it."""
        self._remove(id_)
        self._back.add(id_)
        return [id_]

    def leave(self, worker: int, returned: int) -> None:
        """A worker has no more trials after the round `returned`; nor have others from the first that descends on."""
        leaving = [(worker, returned)]
        while leaving:
            worker, returned = leaving.pop()
            for id_, trial in [*self._left.items()]:
                if trial["worker"] == worker and trial["round"] > returned:
                    self._remove(id_)
            leaving += [(trial["worker"], trial["round"] - 1) for trial in self._left.values() if self._orphan(trial)]

    def wanted(self) -> set[int]:
        """Numbers of the trials that others still descend from."""
        return {id_ for id_, children in self._children.items() if id_ is not None and children > 0}

    def _orphan(self, trial: Json) -> bool:
        return not (trial["parent"] is None or trial["parent"] in self._back or trial["parent"] in self._left)

    def _remove(self, id_: int) -> None:
        self._children[self._left.pop(id_)["parent"]] -= 1
