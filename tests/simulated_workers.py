"""Simulated workers of a search: they drive the real coordinator by encoded messages, in any order of arrival.

A worker's proposals and the accuracies of its trials are functions of the answers that it got; when it acts is random.
"""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

from hpcai.formulas.trial_schedule import number
from hpcai.record.trial import Hyperparameters
from hpcai.search.coordinator import Coordinator
from hpcai.search.messages import (
    Ask,
    Claim,
    End,
    FinishedTrial,
    Forgo,
    Granted,
    History,
    Request,
    Result,
    Retire,
    Taken,
    decoded_answer,
    decoded_request,
    encoded,
    line,
)
from hpcai.search.search_rules import SearchRules
from hpcai.search.trial_cache import MOST_PARENTS

Json = dict[str, Any]
PROPOSALS = 3
FAILS = 0.15  # share of trials
HYPERPARAMETERS = Hyperparameters(batch=32, kernel=3)


def drawn(*what: object) -> float:
    """From 0 to 1, the same for the same arguments."""
    return int.from_bytes(sha256(repr(what).encode()).digest()[:6], "big") / 2**48


@dataclass
class Worker:
    """One leader: its knowledge, what it waits for, and its actions."""

    index: int
    networks: int  # all existing ones; if there are few, workers want the same
    round: int = 0
    attempt: int = 0
    known: int = 0
    learnt: list[FinishedTrial] = field(default_factory=list)
    proposals: list[Json] = field(default_factory=list)
    next: Json | None = None  # granted
    running: Json | None = None
    chooses: bool = False  # has received all that its choice depends on, but has not read its parent's weights
    ended: bool = False
    left: bool = False
    answers: list[Any] = field(default_factory=list)  # in order

    def best(self) -> list[int]:
        """Trials that it may begin with."""
        parents = [trial for trial in self.learnt if trial.parent]
        return [trial.id for trial in sorted(parents, key=lambda each: (-each.value, each.id))][:MOST_PARENTS]

    def propose(self, files: set[int]) -> list[Json]:
        """Networks, each with a parent whose weights exist."""
        best = [id_ for id_ in self.best() if id_ in files]
        seed = (self.index, self.round, self.attempt, tuple(best))
        return [
            {
                "network": f"n{int(self.networks * drawn(seed, place)) if self.networks else (seed, place)}",
                "parent": best[int(len(best) * drawn(seed, -place))] if best else None,
            }
            for place in range(1, PROPOSALS + 1)
        ]


class Search:
    """A coordinator, its workers and all lines between them; `move` performs one possible action."""

    def __init__(self, rules: SearchRules, seed: int = 0, networks: int = 0, retires: int = 0) -> None:
        """`networks`: how many there are, 0 for any number; `retires`: how many workers leave."""
        self.coordinator = Coordinator(rules, self._record)
        self.workers = [Worker(index, networks) for index in range(rules.workers)]
        self.files: set[int] = set()
        self.history: list[Json] = []
        self.networks_of: dict[int, str] = {}  # of recorded trials, by number
        self.given: set[int] = set()  # by the coordinator, and not forgone
        self.forgone = 0
        self._gone: set[int] = set()
        self._dice = Random(seed)
        self._weights = [self._dice.choice((1, 1, 5, 40)) for _ in self.workers]
        self._retires = retires
        self._to = [deque[bytes]() for _ in self.workers]
        self._from = [deque[bytes]() for _ in self.workers]
        for worker in self.workers:
            self._ask(worker, 1)

    def run(self, moves: int = 1_000_000) -> "Search":
        """Until no action is possible."""
        for _ in range(moves):
            if not self.move():
                return self
        return self

    def move(self) -> bool:
        """Perform one action; False if none is possible."""
        possible = [(worker, does) for worker in self.workers for does in self._possible(worker)]
        if not possible:
            return False
        weights = [self._weights[worker.index] for worker, _ in possible]
        worker, does = self._dice.choices(possible, weights)[0]
        does(worker)
        return True

    def end(self, why: str) -> None:
        """The search's time is over."""
        self._deliver(self.coordinator.end(why, 0.0))

    @property
    def lost(self) -> set[int]:
        """Trials that no worker will return."""
        returned = {trial["id"] for trial in self.history}
        return {id_ for id_ in self.given - returned if (id_ - 1) % len(self.workers) in self._gone}

    def _possible(self, worker: Worker) -> Iterator[Any]:
        if self._to[worker.index]:
            yield self._arrives
        if worker.left:
            return
        if self._from[worker.index]:
            yield self._hears
        if worker.running is None and worker.next is not None:
            yield self._starts
        if worker.running is not None:
            yield self._returns
            if worker.round == worker.running["round"] and not worker.ended:
                yield lambda one: self._ask(one, one.round + 1)
        if self._retires and self.history:
            yield self._leaves

    def _send(self, worker: Worker, message: Request, *lines: bytes) -> None:
        self._to[worker.index].append(encoded(message, *lines))

    def _ask(self, worker: Worker, round_: int) -> None:
        worker.round, worker.attempt = round_, 0
        self._send(worker, Ask(worker.index, round_, worker.known))

    def _arrives(self, worker: Worker) -> None:
        message, lines = decoded_request(self._to[worker.index].popleft())
        if isinstance(message, Forgo):
            self.forgone += 1
            self.given.remove(message.id)
        if isinstance(message, Retire):
            self._gone.add(message.worker)
        self._deliver(self.coordinator.handle(message, 0.0, lines))

    def _deliver(self, answers: Iterator[tuple[int, bytes]]) -> None:
        for index, text in answers:
            self._from[index].append(text)
            answer = decoded_answer(text)
            if isinstance(answer, Granted):
                assert answer.id not in self.given, "given twice"
                self.given.add(answer.id)

    def _hears(self, worker: Worker) -> None:
        answer = decoded_answer(self._from[worker.index].popleft())
        worker.answers.append(answer)
        match answer:
            case History():
                worker.known = answer.until
                worker.learnt += answer.entries
                worker.chooses = True
                self._claim(worker)
            case Taken():
                worker.attempt += 1
                self._claim(worker)
            case Granted():
                self._granted(worker, answer)
            case End():
                worker.ended, worker.chooses = True, False

    def _claim(self, worker: Worker) -> None:
        worker.proposals = worker.propose(self.files)
        networks = tuple(str(proposal["network"]) for proposal in worker.proposals)
        self._send(worker, Claim(worker.index, worker.round, networks))

    def _granted(self, worker: Worker, answer: Granted) -> None:
        if answer.recorded:
            chosen = {"network": self.networks_of[answer.id], "parent": answer.recorded.parent}
        else:
            chosen = worker.proposals[answer.place or 0]
        worker.next = {**chosen, "id": answer.id, "worker": worker.index, "round": worker.round}
        assert answer.id == number(worker.round, worker.index, len(self.workers))

    def _starts(self, worker: Worker) -> None:
        """The parent's weights are read; if they were removed, another trial is requested."""
        trial, worker.next, worker.chooses = worker.next, None, False
        assert trial
        if trial["parent"] is None or trial["parent"] in self.files:
            worker.running = trial
            return
        self._send(worker, Forgo(worker.index, trial["id"]))
        attempt = worker.attempt + 1
        self._ask(worker, worker.round)
        worker.attempt = attempt

    def _returns(self, worker: Worker) -> None:
        trial, worker.running = worker.running, None
        assert trial
        parent = drawn("fails", trial["network"]) > FAILS
        value = round(drawn(trial["network"]), 2) if parent else 0.0  # some are equal
        if parent:
            self.files.add(trial["id"])
        finished = FinishedTrial(trial["id"], trial["round"], value, value, parent, (), HYPERPARAMETERS)
        result = Result(worker.index, trial["id"], trial["round"], value, parent)
        self._send(worker, result, line(finished), line(trial))
        if worker.round == trial["round"] and not worker.ended:
            self._ask(worker, worker.round + 1)

    def _leaves(self, worker: Worker) -> None:
        self._retires -= 1
        worker.left = True
        self._send(worker, Retire(worker.index))

    def _record(self, result: Result, lines: Sequence[bytes]) -> None:
        self.history.append(json.loads(lines[1]))
        self.files -= {trial["id"] for trial in self.history} - self.coordinator.needed()
