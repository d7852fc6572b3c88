"""Trials of a search in which a round knows those of earlier rounds alone, so that runs repeat.

What a round knows is settled before any of its trials is proposed, whenever results arrive and whoever asks first.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcai.search.trial_cache import MOST_PARENTS, Entry, selected


@dataclass
class _Round:
    """Trials of a round that came back; when all have, those that others are told of, by number."""

    entries: list[Entry] = field(default_factory=list)
    until: int = 0  # trials of this round and all before


class Lagged:
    """What rounds know; only of rounds that somebody may still ask for, and of trials that may still be parents."""

    def __init__(self, workers: int, lag: int) -> None:
        """`lag`: a trial knows those that are more than so many rounds back."""
        self.settled = 0  # rounds of which all trials came back
        self._workers, self._lag = workers, lag
        self._rounds: dict[int, _Round] = {}
        self._count = 0  # trials of rounds that are settled
        self._leading: list[Entry] = []  # the best that were told of, of all rounds that everybody knows
        self._left: list[int] = []  # of each worker that has left, the last round it gave back, in order

    def add(self, round_: int, id_: int, value: float, parent: bool, text: bytes) -> Iterable[int]:
        """A trial has come back; `text` is what others are told of it, in JSON. The rounds that this has settled."""
        before = self.settled
        self._rounds.setdefault(round_, _Round()).entries.append(Entry(-value, id_, id_, parent, text))
        self._settle()
        return range(before + 1, self.settled + 1)

    def leave(self, worker: int, returned: int) -> None:
        """A worker has left, that gave back trials of rounds up to `returned`: nobody waits for more."""
        insort(self._left, returned)
        self._settle()

    def awaited(self, round_: int, worker: int) -> int:
        """The round that is to settle before a trial of `round_` can be chosen; 0 if there is none to wait for."""
        last = self._last(round_)
        return last if last > self.settled else 0

    def told(self, round_: int, since: int) -> tuple[int, list[Entry]]:
        """How many trials one knows in a round, and of which it is told who knew `since` of them in an earlier one."""
        last = self._last(round_)
        if last < 1:
            return 0, []
        new = [each for number, each in sorted(self._rounds.items()) if number <= last and each.until > since]
        return self._rounds[last].until, selected([entry for each in new for entry in each.entries])

    def wanted(self) -> set[int]:
        """Numbers of the trials that a choice may begin with, in any trial that is not yet ready to be trained."""
        recent = {entry.id for each in self._rounds.values() for entry in each.entries}
        return recent.union(entry.id for entry in self._leading)

    def _last(self, round_: int) -> int:
        """The last round that is known in `round_`; none if below 1."""
        return round_ - self._lag - 1

    def _settle(self) -> None:
        while len(self._left) < self._workers and self._complete(self.settled + 1):
            self.settled += 1
            ended = self._rounds[self.settled]
            self._count += len(ended.entries)
            ended.until = self._count
            ended.entries = selected(sorted(ended.entries, key=lambda entry: entry.id))
            self._forget()

    def _complete(self, round_: int) -> bool:
        there = self._workers - bisect_left(self._left, round_)
        return round_ in self._rounds and len(self._rounds[round_].entries) == there

    def _forget(self) -> None:
        """All have gone on to the round after the settled ones, so that nobody asks for what was told before that."""
        known = self.settled - self._lag
        if known > 0:
            parents = [entry for entry in self._rounds[known].entries if entry.parent]
            self._leading = sorted([*self._leading, *parents])[:MOST_PARENTS]
        self._rounds.pop(known - 1, None)
