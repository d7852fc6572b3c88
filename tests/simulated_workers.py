"""Workers of a search that train nothing: they drive the real coordinator by encoded messages, in any order of arrival.

What a worker proposes and what its trials reach are functions of what it was told; when it does anything is drawn.
"""

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Any

from hpcai.formulas.trial_schedule import number
from hpcai.search.coordinator import Coordinator, Rules
from hpcai.search.messages import decoded, encoded, line
from hpcai.search.trial_cache import MOST_PARENTS

Json = dict[str, Any]
PROPOSALS = 3
FAILS = 0.15  # share of trials


def drawn(*what: object) -> float:
    """From 0 to 1, the same for the same."""
    return int.from_bytes(sha256(repr(what).encode()).digest()[:6], "big") / 2**48


@dataclass
class Worker:
    """One leader: what it knows, what it waits for, what it does."""

    index: int
    networks: int  # that there are; few of them, and workers want the same
    round: int = 0
    attempt: int = 0
    known: int = 0
    book: list[Json] = field(default_factory=list)
    proposals: list[Json] = field(default_factory=list)
    next: Json | None = None  # granted
    running: Json | None = None
    chooses: bool = False  # knows all that it chooses by, and has not read its parent's weights
    ended: bool = False
    left: bool = False
    told: list[Json] = field(default_factory=list)  # all answers, in order

    def best(self) -> list[int]:
        """Trials that it may begin with."""
        parents = [entry for entry in self.book if entry["parent"]]
        return [entry["id"] for entry in sorted(parents, key=lambda each: (-each["value"], each["id"]))][:MOST_PARENTS]

    def propose(self, files: set[int]) -> list[Json]:
        """Networks, each with a parent whose weights are there."""
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
    """A coordinator, its workers and all lines between them; `move` does one thing that can be done."""

    def __init__(self, rules: Rules, seed: int = 0, networks: int = 0, retires: int = 0) -> None:
        """`networks`: how many there are, 0 for any number; `retires`: how many workers leave."""
        self.coordinator = Coordinator(rules, self._record)
        self.workers = [Worker(index, networks) for index in range(rules.workers)]
        self.files: set[int] = set()
        self.history: list[Json] = []
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
        """Until nothing more can be done."""
        for _ in range(moves):
            if not self.move():
                return self
        return self

    def move(self) -> bool:
        """Do one thing; False if there is none."""
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
        """Trials that nobody will give back."""
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

    def _send(self, worker: Worker, kind: str, **rest: Any) -> None:
        self._to[worker.index].append(encoded({"kind": kind, "worker": worker.index, **rest}))

    def _ask(self, worker: Worker, round_: int) -> None:
        worker.round, worker.attempt = round_, 0
        self._send(worker, "ask", round=round_, since=worker.known)

    def _arrives(self, worker: Worker) -> None:
        message = decoded(self._to[worker.index].popleft())
        if message["kind"] == "forgo":
            self.forgone += 1
            self.given.remove(message["id"])
        if message["kind"] == "retire":
            self._gone.add(message["worker"])
        self._deliver(self.coordinator.handle(message, 0.0))

    def _deliver(self, answers: Iterator[tuple[int, bytes]]) -> None:
        for index, text in answers:
            self._from[index].append(text)
            answer = json.loads(text)
            if answer["kind"] == "granted":
                assert answer["id"] not in self.given, "given twice"
                self.given.add(answer["id"])

    def _hears(self, worker: Worker) -> None:
        answer = json.loads(self._from[worker.index].popleft())
        worker.told.append(answer)
        match answer["kind"]:
            case "history":
                worker.known = answer["until"]
                worker.book += answer["entries"]
                worker.chooses = True
                self._claim(worker)
            case "taken":
                worker.attempt += 1
                self._claim(worker)
            case "granted":
                self._granted(worker, answer)
            case "end":
                worker.ended, worker.chooses = True, False

    def _claim(self, worker: Worker) -> None:
        worker.proposals = worker.propose(self.files)
        networks = [proposal["network"] for proposal in worker.proposals]
        self._send(worker, "claim", round=worker.round, networks=networks)

    def _granted(self, worker: Worker, answer: Json) -> None:
        chosen = answer["recorded"] if "recorded" in answer else worker.proposals[answer["place"]]
        worker.next = {**chosen, "id": answer["id"], "worker": worker.index, "round": worker.round}
        assert answer["id"] == number(worker.round, worker.index, len(self.workers))

    def _starts(self, worker: Worker) -> None:
        """The parent's weights are read; if they are gone, another trial is asked for."""
        trial, worker.next, worker.chooses = worker.next, None, False
        assert trial
        if trial["parent"] is None or trial["parent"] in self.files:
            worker.running = trial
            return
        self._send(worker, "forgo", id=trial["id"])
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
        entry = {"id": trial["id"], "round": trial["round"], "value": value, "parent": parent}
        self._to[worker.index].append(
            encoded({"kind": "result", "worker": worker.index, **entry}, line(entry), line(trial))
        )
        if worker.round == trial["round"] and not worker.ended:
            self._ask(worker, worker.round + 1)

    def _leaves(self, worker: Worker) -> None:
        self._retires -= 1
        worker.left = True
        self._send(worker, "retire")

    def _record(self, message: Json) -> None:
        self.history.append(json.loads(message["lines"][1]))
        self.files -= {trial["id"] for trial in self.history} - self.coordinator.wanted()
