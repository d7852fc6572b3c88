"""Who tries what: the one place that knows all trials of a search. Messages in, answers out.

It has no clock, no thread and no connection of its own. What it keeps does not grow with the trials but for a number of
each network that was given out: the history of all is in the file that it has written.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hpcai.formulas.trial_schedule import number
from hpcai.search.lagged_trial_cache import Lagged
from hpcai.search.messages import END, NOTED, TAKEN, encoded, history
from hpcai.search.recorded_trials import Repetition
from hpcai.search.trial_cache import Board

Json = dict[str, Any]
Answer = tuple[int, bytes]  # the worker it is for, and what it is told


@dataclass(frozen=True)
class Rules:
    """When a search ends, and what a trial may know.

    `trials` and `rounds`: no limit if 0. `lag`: None where a trial may know all results so far, else it knows those of
    the rounds that lie further back. `recorded`: trials by number that are tried again, in place of all proposals.
    """

    workers: int
    trials: int = 0
    rounds: int = 0
    lag: int | None = None
    recorded: dict[int, Json] | None = None


@dataclass
class Counts:
    """What the coordinator was asked, and what it did."""

    requests: int = 0
    granted: int = 0
    duplicates: int = 0
    returned: int = 0
    retired: int = 0
    ended_by: str = ""


@dataclass
class _Worker:
    """What it was given and has not given back, the round of the last trial that it gave back, whether it has left."""

    running: set[int] = field(default_factory=set)
    returned: int = 0
    retired: bool = False


def _known(rules: Rules) -> Board | Lagged | Repetition:
    if rules.recorded is not None:
        return Repetition(rules.recorded, rules.workers, rules.trials, rules.rounds)
    return Board(rules.workers) if rules.lag is None else Lagged(rules.workers, rules.lag)


class Coordinator:
    """Knows what was tried and what is being tried, and lets no network be tried twice."""

    def __init__(self, rules: Rules, record: Callable[[Json], None]) -> None:
        """`record` is given the message of every trial that comes back, once.

        Of its lines the first is what others are told of the trial.
        """
        self.rules = rules
        self.counts = Counts()
        self._record = record
        self._over = False
        self._workers = [_Worker() for _ in range(rules.workers)]
        self._networks: set[str] = set()
        self._known = _known(rules)
        self._asking: dict[int, list[Json]] = {}  # by the round, or the recorded trial, that they wait for
        self._claims: dict[int, Json] = {}  # by the number that the trial would have
        self._turn = 1  # the number whose claim is decided next, where that has an order

    def handle(self, message: Json, now: float) -> Iterator[Answer]:
        """Take in a message of a worker at `now` seconds; the answers that are due, to it or to others."""
        self.counts.requests += 1
        match message["kind"]:
            case "ask":
                yield from self._asked(message, now)
            case "claim":
                yield from self._claimed(message, now)
            case "result":
                awaited = self._take_in(message)
                yield message["worker"], NOTED
                yield from self._released(awaited, now)
            case "forgo":
                self._forgo(message["worker"], message["id"])
                yield from self._released([*self._asking], now)
            case "retire":
                self._retire(message["worker"])
                yield from self._released([*self._asking], now)
                yield from self._granted(now)
            case _:
                raise ValueError(f"a message of unknown kind: {message['kind']!r}")

    def end(self, why: str, now: float) -> Iterator[Answer]:
        """Give out no more trials; the answers to those who wait for one."""
        self._over = True
        self.counts.ended_by = self.counts.ended_by or why
        yield from self._released([*self._asking], now)
        yield from self._granted(now)

    @property
    def running(self) -> int:
        """Trials that were given out and have not come back."""
        return sum(len(worker.running) for worker in self._workers)

    def wanted(self) -> set[int]:
        """Numbers of the trials whose weights a trial may still begin with."""
        return self._known.wanted()

    def _number(self, request: Json) -> int:
        return number(request["round"], request["worker"], self.rules.workers)

    def _take_in(self, message: Json) -> Iterable[int]:
        """Note a result; what asks may wait for that is there now."""
        id_, round_ = message["id"], message["round"]
        worker = self._holder(message["worker"], id_)
        worker.running.discard(id_)
        worker.returned = round_
        self.counts.returned += 1
        awaited = self._known.add(round_, id_, message["value"], message["parent"], message["lines"][0])
        self._record(message)
        return awaited

    def _holder(self, index: int, trial: int) -> _Worker:
        worker = self._workers[index]
        if trial not in worker.running:
            raise ValueError(f"worker {index} gave back trial {trial}, which it was not given")
        return worker

    def _forgo(self, index: int, trial: int) -> None:
        """A worker cannot try what it was given; a recorded trial nobody can, then."""
        self._holder(index, trial).running.discard(trial)
        self.counts.granted -= 1
        if isinstance(self._known, Repetition):
            self._known.leave(index, (trial - 1) // self.rules.workers)

    def _retire(self, index: int) -> None:
        """A worker leaves: what it was given is lost, and nobody waits for it."""
        worker = self._workers[index]
        worker.retired = True
        worker.running.clear()
        self.counts.retired += 1
        self._claims = {key: claim for key, claim in self._claims.items() if claim["worker"] != index}
        self._asking = {
            key: [ask for ask in asking if ask["worker"] != index] for key, asking in self._asking.items()
        }
        self._known.leave(index, worker.returned)

    def _asked(self, ask: Json, now: float) -> Iterator[Answer]:
        """The history for one who asks, or what it is to try again; later, if it must wait."""
        awaited = 0 if self._ended(ask) else self._known.awaited(ask["round"], ask["worker"])
        if awaited:
            self._asking.setdefault(awaited, []).append(ask)
        else:
            yield ask["worker"], self._answer(ask, now)

    def _released(self, awaited: Iterable[int], now: float) -> Iterator[Answer]:
        """Answers to those who wait for these, unless they must wait for more."""
        asking = [ask for each in awaited for ask in self._asking.pop(each, ())]
        for ask in asking:
            yield from self._asked(ask, now)

    def _answer(self, ask: Json, now: float) -> bytes:
        if self._ended(ask):
            return END
        if isinstance(self._known, Repetition):
            return self._given(ask, now, {"recorded": self._known.trial(ask["round"], ask["worker"])})
        until, entries = self._known.told(ask["round"], ask["since"])
        return history(until, (entry.text for entry in entries))

    def _ended(self, request: Json) -> bool:
        why = self._limit(request["round"], request["worker"])
        self.counts.ended_by = self.counts.ended_by or why
        return self._over or bool(why)

    def _limit(self, round_: int, worker: int) -> str:
        """Why there is no trial of this round for a worker; where trials have an order, the first numbers count."""
        if self.rules.rounds and round_ > self.rules.rounds:
            return "rounds"
        if isinstance(self._known, Repetition):
            return "" if self._known.trial(round_, worker) else "trials"
        ordered = isinstance(self._known, Lagged)
        before = number(round_, worker, self.rules.workers) - 1 if ordered else self.counts.granted
        return "trials" if 0 < self.rules.trials <= before else ""

    def _claimed(self, claim: Json, now: float) -> Iterator[Answer]:
        """The answer to a claim; where trials have an order, once those before it are decided."""
        key = self._number(claim)
        if isinstance(self._known, Lagged) and key >= self._turn:
            self._claims[key] = claim
            yield from self._granted(now)
        else:
            yield claim["worker"], self._decided(claim, now)

    def _granted(self, now: float) -> Iterator[Answer]:
        """Answers to the claims that are next."""
        for key in [*self._claims] if self._over else self._turns():
            claim = self._claims.pop(key)
            yield claim["worker"], self._decided(claim, now)

    def _turns(self) -> Iterator[int]:
        """Numbers of the claims that are next, as far as they are there; workers that have left are passed over."""
        while self._claims:
            while self._workers[(self._turn - 1) % self.rules.workers].retired:
                self._turn += 1
            if self._turn not in self._claims:
                return
            yield self._turn

    def _decided(self, claim: Json, now: float) -> bytes:
        """The first of the networks claimed that nobody has; or all are taken, or it is too late."""
        if self._ended(claim):
            return END
        free = (place for place, network in enumerate(claim["networks"]) if network not in self._networks)
        place = next(free, None)
        self.counts.duplicates += len(claim["networks"]) if place is None else place
        if place is None:
            return TAKEN
        self._networks.add(claim["networks"][place])
        self._turn = max(self._turn, self._number(claim) + 1)
        return self._given(claim, now, {"place": place})

    def _given(self, request: Json, now: float, what: Json) -> bytes:
        trial = self._number(request)
        self._workers[request["worker"]].running.add(trial)
        self.counts.granted += 1
        return encoded({"kind": "granted", "id": trial, "given": now, **what})
