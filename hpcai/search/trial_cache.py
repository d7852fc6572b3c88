"""What the coordinator of a search still knows of trials that came back: the best, the newest, ready to be sent."""

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MOST_ENTRIES = 64  # of a reply
BEST_OF_A_REPLY = 16  # where there are more; the others are the newest
MOST_PARENTS = 32  # a choice begins with one of so many, the best that it knows
ROUNDS_KEPT = 4  # so long a trial that is not good may still be a parent
KEPT_BEST = 128
KEPT_NEWEST = 1024


class Entry(NamedTuple):
    """A trial that came back; entries are ordered by value, the earlier one of equals first."""

    cost: float  # value, negative
    id: int
    place: int  # how many came back before it
    parent: bool  # whether its network can be one
    text: bytes  # JSON


class Board:
    """Trials in the order in which they came back; of very many only the best and the newest."""

    def __init__(self, workers: int) -> None:
        self._best: list[Entry] = []
        self._newest: deque[Entry] = deque(maxlen=KEPT_NEWEST)
        self._wanted = ROUNDS_KEPT * workers + MOST_ENTRIES
        self.count = 0

    def add(self, round_: int, id_: int, value: float, parent: bool, text: bytes) -> Iterable[int]:
        """A trial has come back; `text` is what others are told of it, in JSON. Nobody waits for that."""
        entry = Entry(-value, id_, self.count, parent, text)
        self.count += 1
        self._newest.append(entry)
        if parent and (len(self._best) < KEPT_BEST or entry < self._best[-1]):
            insort(self._best, entry)
            del self._best[KEPT_BEST:]
        return ()

    def leave(self, worker: int, returned: int) -> None:
        """A worker has left: nobody waits for any."""

    def awaited(self, round_: int, worker: int) -> int:
        """What a worker has to wait for before it is told: nothing."""
        return 0

    def told(self, round_: int, since: int) -> tuple[int, list[Entry]]:
        """How many trials have come back, and of which it is told who knew `since` of them."""
        return self.count, self.since(since)

    def since(self, place: int) -> list[Entry]:
        """Those from a place on: all, or the best and the newest of many."""
        if self.count - place <= min(MOST_ENTRIES, len(self._newest)):
            return [self._newest[index] for index in range(place - self.count, 0)]
        best = [entry for entry in self._best if entry.place >= place][:BEST_OF_A_REPLY]
        known = {entry.place for entry in best}
        newest = [self._newest[index] for index in range(-min(MOST_ENTRIES, len(self._newest)), 0)]
        rest = [entry for entry in newest if entry.place >= place and entry.place not in known]
        return sorted([*best, *rest[len(best) - MOST_ENTRIES :]], key=lambda entry: entry.place)

    def wanted(self) -> set[int]:
        """Numbers of the trials that a choice may begin with: good ones, and new ones."""
        newest = range(-min(self._wanted, len(self._newest)), 0)
        return {entry.id for entry in self._best[:MOST_ENTRIES]} | {self._newest[index].id for index in newest}


def selected(entries: Sequence[Entry]) -> list[Entry]:
    """Of many trials as many as a reply holds: the best, and the last ones, in their order."""
    if len(entries) <= MOST_ENTRIES:
        return list(entries)
    best = {entry.id for entry in sorted(entry for entry in entries if entry.parent)[:BEST_OF_A_REPLY]}
    rest = [entry.id for entry in entries if entry.id not in best][len(best) - MOST_ENTRIES :]
    return [entry for entry in entries if entry.id in best.union(rest)]
