"""A group that searches: it trains one trial after the other, and its leader gets the next one meanwhile."""

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import torch

from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import broadcast
from hpcai.errors import HpcaiError
from hpcai.formulas.learning_curve import WHOLE, accuracy, value
from hpcai.search import journal, trial_run
from hpcai.search.child_builder import Child, Nursery, ended_with, keep_weights
from hpcai.search.memory_limit import Room
from hpcai.search.messages import line
from hpcai.search.transport import Desk, Remote
from hpcai.search.trial_plan import Plan
from hpcai.search.trial_request import Errand
from hpcai.train.loop import Training
from hpcai.train.proof import Findings

Json = dict[str, Any]
ASK_AT = 0.5  # of the steps of a trial: from then on the next one is prepared
PHASES = ("training", "validation", "warm_up")
PAUSE = 0.0005  # seconds between questions of one who has nothing to do


class OutOfMemory(Exception):
    """A network does not fit, on one rank of its group at least; the same on all of them."""


@dataclass
class Totals:
    """What a group has done; the same on all its ranks but for the findings and the seconds."""

    differing_ranks: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    findings: Findings = field(default_factory=Findings)
    steps: int = 0
    samples: int = 0
    skipped_samples: int = 0
    executed_operations: int = 0
    deviation: float = 0.0
    last_return: float = 0.0


@dataclass
class Leader:
    """What only the first rank of a group has; `desk` only rank 0 of all."""

    errand: Errand
    line: Desk | Remote
    desk: Desk | None = None


class Squad:
    """A group on one of its ranks. Collective over the group, but for what the leader does."""

    def __init__(
        self,
        group: Group,
        device: torch.device,
        nursery: Nursery,
        thread: ThreadPoolExecutor,
        leader: Leader | None,
        assemble: Callable[[Plan, Child], Training],
        folder: Path,
        now: Callable[[], float],
        room: Room,
        duration: float,
        rounds: int,
        epochs: int,
    ) -> None:
        """`assemble` makes a training of a trial, or raises OutOfMemory; `duration`, `rounds`: no limit if 0."""
        self.totals = Totals()
        self.left = ""  # why this group has left the search
        self._group, self._device, self._nursery, self._thread, self._leader = group, device, nursery, thread, leader
        self._assemble, self._folder, self._now, self._room = assemble, folder, now, room
        self._duration, self._rounds, self._epochs = duration, rounds, epochs
        self._told: tuple[int, Future[Child]] | None = None  # number and network of the trial that members heard of
        self._round = 1
        self._asked = 0  # the round that the leader has asked for
        self._returns: deque[tuple[Future[None], Json]] = deque()
        self._unnoted = 0
        self._unkept: Exception | None = None

    def run(self, shutdown: Shutdown, tell: Callable[[str, float], None]) -> None:
        """Trials until there are no more."""
        self._ask(self._round)
        while not self.left and (plan := self._next(shutdown)) is not None:
            self._train(plan, shutdown, lambda text: tell(text, self._share()))
            self._round += 1
            if not self.left:
                self._ask(self._round)
        if self._leader:
            self._finish(self._leader)

    def _finish(self, leader: Leader) -> None:
        """Give back what was not begun, and wait until all that was done is noted."""
        leader.errand.close(self._round - 1)
        while self._returns or self._unnoted or not leader.errand.closed:
            self._attend(0.0)
            sleep(PAUSE)
        if self.left or leader.errand.exhausted:
            leader.line.send({"kind": "retire", "worker": self._group.coordinates.group})

    def _next(self, shutdown: Shutdown) -> Plan | None:
        """The next trial, once its network is ready on the leader; None if there is none, or time is over."""
        errand = self._leader.errand if self._leader else None
        while errand and not (errand.ready or self._late() or shutdown.poll()):
            self._attend(0.0)
            sleep(PAUSE)
        if self._group.degree > 1:
            shutdown.barrier(self._group.model)
        late = self._late() or shutdown.poll() or bool(errand and errand.ended)
        plan = None if errand is None or late or errand.plan is None else errand.plan.as_dict()
        message = broadcast(self._group.model, plan)
        return None if message is None else Plan(**message)

    def _share(self) -> float:
        """How much of the search is done, as far as its duration or its rounds tell."""
        whole = [self._now() / self._duration] if self._duration else []
        return min(1.0, max([*whole, (self._round - 1) / self._rounds if self._rounds else 0.0]))

    def _late(self) -> bool:
        """Whether it is too late for another trial; the first one has a step in any case."""
        return self._round > 1 and self._overdue()

    def _overdue(self) -> bool:
        return 0 < self._duration <= self._now()

    def _attend(self, share: float) -> None:
        """Hear others, and go on with the next trial; on the leader, between any two steps.

        Rank 0 answers the others when its own errand looks for answers.
        """
        if self._leader is None:
            return
        try:
            if share >= ASK_AT:
                self._ask(self._round + 1)
            if self._returns and self._returns[0][0].done():
                self._give_back()
            self._unnoted -= self._leader.errand.poll()
        except Exception as error:
            self._unkept = error  # no fault of the trial that was running
            raise

    def _ask(self, round_: int) -> None:
        """Ask for the trial of a round, unless that was done."""
        if self._leader and self._asked < round_:
            self._asked = round_
            self._leader.errand.begin(round_)

    def _agree(self) -> None:
        """Tell the members of the next trial as soon as the leader has it, so that all prepare it."""
        if self._group.degree == 1:
            return
        errand = self._leader.errand if self._leader else None
        early = errand is not None and self._asked > self._round and errand.plan is not None
        message = broadcast(self._group.model, errand.plan.as_dict() if errand and early and errand.plan else None)
        if message is not None and self._leader is None and (self._told is None or self._told[0] != message["id"]):
            self._told = (message["id"], self._thread.submit(self._nursery.raised, Plan(**message), False))

    def _child(self, plan: Plan) -> Child:
        """The network of a trial, on this rank."""
        if self._leader:
            assert self._leader.errand.child
            return self._leader.errand.child.result()
        if self._told is None or self._told[0] != plan.id:
            return self._nursery.raised(plan, False)
        return self._told[1].result()

    def _train(self, plan: Plan, shutdown: Shutdown, tell: Callable[[str], None]) -> None:
        started, child, phases = self._now(), self._child(plan), Phases(self._device)
        try:
            outcome = self._outcome(plan, child, phases, shutdown, tell)
        except OutOfMemory:
            outcome = trial_run.Outcome([], "memory", dict(phases.seconds))
        except (HpcaiError, RuntimeError) as error:
            if self._group.degree > 1 or self._group.groups == 1 or error is self._unkept:
                raise  # the other ranks wait for this one, or nobody is left, or what was tried cannot be noted
            self.left = f"{type(error).__name__}: {error}"
            print(f"hpcai: group {plan.worker} leaves the search: {self.left}", file=sys.stderr, flush=True)
            outcome = trial_run.Outcome([], "lost", dict(phases.seconds))
        outcome.planned_bytes = self._room.planned(child.graph, plan.batch)
        self._room.measured(outcome.nbytes, outcome.planned_bytes)
        self._book(plan, child, outcome)
        if self._leader:
            self._keep(plan, trial_run.record(plan, child, outcome, started), outcome)

    def _outcome(
        self, plan: Plan, child: Child, phases: Phases, shutdown: Shutdown, tell: Callable[[str], None]
    ) -> trial_run.Outcome:
        clockwork = trial_run.Clockwork(self._now, self._attend, self._overdue, self._agree)
        with phases.measure("warm_up"):
            training = self._assemble(plan, child)
            training.warm_up()
        return trial_run.run(plan, training, phases, shutdown, clockwork, tell)

    def _book(self, plan: Plan, child: Child, outcome: trial_run.Outcome) -> None:
        totals = self.totals
        totals.differing_ranks += outcome.differing_ranks
        totals.steps += outcome.steps
        totals.samples += sum(entry["samples"] for entry in outcome.curve)
        totals.skipped_samples += sum(entry["skipped"] for entry in outcome.curve)
        totals.executed_operations += outcome.executed_operations
        totals.deviation = max(totals.deviation, child.deviation)
        for name in totals.seconds:
            totals.seconds[name] += outcome.seconds.get(name, 0.0)
        if outcome.training:
            totals.findings.add(outcome.training.proof.findings)

    def _keep(self, plan: Plan, record: Json, outcome: trial_run.Outcome) -> None:
        """Write the weights, in the thread, and then tell the coordinator."""
        written: Future[None] = Future()
        if outcome.training and outcome.end in WHOLE:
            state = ended_with(outcome.training.state.module)
            written = self._thread.submit(keep_weights, self._folder, plan.id, state)
        else:
            written.set_result(None)
        self._returns.append((written, {"plan": plan, "record": record}))

    def _give_back(self) -> None:
        assert self._leader
        written, kept = self._returns.popleft()
        written.result()
        plan, record = kept["plan"], kept["record"]
        record["returned"] = self.totals.last_return = self._now()
        entry = {
            "id": plan.id,
            "round": plan.round,
            "value": value(record, self._epochs),
            "accuracy": accuracy(record),
            "parent": record["end"] in WHOLE,
            "chain": [*plan.ancestry, *plan.morphisms],
            "hyperparameters": record["hyperparameters"],
        }
        self._unnoted += 1
        message = {"kind": "result", "worker": plan.worker}
        message |= {name: entry[name] for name in ("id", "round", "value", "parent")}
        self._leader.line.send(message, line(entry), journal.written(journal.Trial(**record)))
