"""Cache of returned trials for repeatable searches (KEY REPLAY = rounds): a round knows only trials of earlier rounds.

What a round knows is settled before any of its trials is proposed, whatever the order in which results and requests
arrive.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcai.search.trial_cache import MOST_PARENTS, CachedTrial, selected


@dataclass
class _Round:
    """Trials of a round that returned; once all have, those to send to other leaders, by number."""

    trials: list[CachedTrial] = field(default_factory=list)
    until: int = 0  # trials of this round and all earlier ones


class LaggedTrialCache:
    """Keeps the rounds that a request can still ask for, and the trials that can still become parents."""

    def __init__(self, workers: int, lag: int) -> None:
        """`lag`: a trial knows the trials that are more than so many rounds back."""
        self.settled = 0  # rounds of which all trials returned
        self._workers, self._lag = workers, lag
        self._rounds: dict[int, _Round] = {}
        self._count = 0  # trials of settled rounds
        self._best: list[CachedTrial] = []  # the best trials that were sent, of all rounds that every leader knows
        self._left: list[int] = []  # the last round that each worker returned that has left, sorted

    def add(self, round_: int, id_: int, value: float, parent: bool, text: bytes) -> Iterable[int]:
        """Note a trial that returned; `text` is its FinishedTrial as JSON. Returns the rounds that it has settled."""
        before = self.settled
        self._rounds.setdefault(round_, _Round()).trials.append(CachedTrial(-value, id_, id_, parent, text))
        self._settle()
        return range(before + 1, self.settled + 1)

    def leave(self, worker: int, returned: int) -> None:
        """Note that a worker has left that returned trials up to round `returned`; no request waits for more."""
        insort(self._left, returned)
        self._settle()

    def awaited(self, round_: int, worker: int) -> int:
        """The round that must be settled before a trial of `round_` can be chosen; 0 if none."""
        last = self._last_known(round_)
        return last if last > self.settled else 0

    def reply(self, round_: int, since: int) -> tuple[int, list[CachedTrial]]:
        """How many trials a round knows, and those to send to a leader that knew `since` of them before."""
        last = self._last_known(round_)
        if last < 1:
            return 0, []
        new = [each for number, each in sorted(self._rounds.items()) if number <= last and each.until > since]
        return self._rounds[last].until, selected([trial for each in new for trial in each.trials])

    def needed(self) -> set[int]:
        """Numbers of the trials that can become parents of any trial that is not prepared yet."""
        recent = {trial.id for each in self._rounds.values() for trial in each.trials}
        return recent.union(trial.id for trial in self._best)

    def _last_known(self, round_: int) -> int:
        """The last round that `round_` knows; none if below 1."""
        return round_ - self._lag - 1

    def _settle(self) -> None:
        while len(self._left) < self._workers and self._complete(self.settled + 1):
            self.settled += 1
            ended = self._rounds[self.settled]
            self._count += len(ended.trials)
            ended.until = self._count
            ended.trials = selected(sorted(ended.trials, key=lambda trial: trial.id))
            self._forget()

    def _complete(self, round_: int) -> bool:
        expected = self._workers - bisect_left(self._left, round_)
        return round_ in self._rounds and len(self._rounds[round_].trials) == expected

    def _forget(self) -> None:
        """Remove the round that no leader can ask for again: all of them know it since they knew the one after it."""
        known = self.settled - self._lag
        if known > 0:
            parents = [trial for trial in self._rounds[known].trials if trial.parent]
            self._best = sorted([*self._best, *parents])[:MOST_PARENTS]
        self._rounds.pop(known - 1, None)
