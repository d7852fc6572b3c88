"""Cache of the trials that returned, on the coordinator: the best and the newest, encoded, ready to be sent."""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MOST_IN_REPLY = 64  # trials
BEST_IN_REPLY = 16  # where a reply cannot hold all; the others are the newest
MOST_PARENTS = 32  # a suggester chooses among so many parents, the best that it knows
ROUNDS_KEPT = 4  # for so long a trial that is not among the best can become a parent
KEPT_BEST = 128
KEPT_NEWEST = 1024


class CachedTrial(NamedTuple):
    """A trial that returned. Ordered by value, the best first; of equal ones the earlier."""

    cost: float  # the negative value
    id: int
    place: int  # how many trials returned before it
    parent: bool  # whether it can become a parent
    text: bytes  # FinishedTrial as JSON


class TrialCache:
    """Trials in the order in which they returned; of very many only the best and the newest."""

    def __init__(self, workers: int) -> None:
        self._best: list[CachedTrial] = []
        self._newest: deque[CachedTrial] = deque(maxlen=KEPT_NEWEST)
        self._newest_needed = ROUNDS_KEPT * workers + MOST_IN_REPLY
        self.count = 0

    def add(self, round_: int, id_: int, value: float, parent: bool, text: bytes) -> Iterable[int]:
        """Note a trial that returned; `text` is its FinishedTrial as JSON. No request waits for it: returns nothing."""
        trial = CachedTrial(-value, id_, self.count, parent, text)
        self.count += 1
        self._newest.append(trial)
        if parent and (len(self._best) < KEPT_BEST or trial < self._best[-1]):
            insort(self._best, trial)
            del self._best[KEPT_BEST:]
        return ()

    def leave(self, worker: int, returned: int) -> None:
        """Note that a worker has left the search; no request waits for its trials."""

    def awaited(self, round_: int, worker: int) -> int:
        """What a request has to wait for: nothing."""
        return 0

    def reply(self, round_: int, since: int) -> tuple[int, list[CachedTrial]]:
        """How many trials have returned, and those to send to a leader that knows the first `since` of them."""
        return self.count, self.since(since)

    def since(self, place: int) -> list[CachedTrial]:
        """The trials from a place on: all, or the best and the newest of many."""
        if self.count - place <= min(MOST_IN_REPLY, len(self._newest)):
            return [self._newest[index] for index in range(place - self.count, 0)]
        best = [trial for trial in self._best if trial.place >= place][:BEST_IN_REPLY]
        known = {trial.place for trial in best}
        newest = [self._newest[index] for index in range(-min(MOST_IN_REPLY, len(self._newest)), 0)]
        rest = [trial for trial in newest if trial.place >= place and trial.place not in known]
        return sorted([*best, *rest[len(best) - MOST_IN_REPLY :]], key=lambda trial: trial.place)

    def needed(self) -> set[int]:
        """Numbers of the trials that can become parents: the best and the newest."""
        newest = range(-min(self._newest_needed, len(self._newest)), 0)
        return {trial.id for trial in self._best[:MOST_IN_REPLY]} | {self._newest[index].id for index in newest}


def selected(trials: Sequence[CachedTrial]) -> list[CachedTrial]:
    """As many trials as a reply can hold: the best, and the last ones, in their order."""
    if len(trials) <= MOST_IN_REPLY:
        return list(trials)
    best = {trial.id for trial in sorted(trial for trial in trials if trial.parent)[:BEST_IN_REPLY]}
    rest = [trial.id for trial in trials if trial.id not in best][len(best) - MOST_IN_REPLY :]
    return [trial for trial in trials if trial.id in best.union(rest)]
