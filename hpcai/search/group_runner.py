"""Runner of a group's trials, one after the other; the group's leader requests the next one during the current one."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import torch
from msgspec import convert, to_builtins
from msgspec.structs import replace

from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.comm.shutdown import Shutdown
from hpcai.comm.world import broadcast
from hpcai.errors import HpcaiError
from hpcai.record.trial import COMPLETED, Trial
from hpcai.search.child_builder import Child, ChildBuilder
from hpcai.search.earlier_trials import finished, result
from hpcai.search.group_totals import GroupTotals, TrialFindings
from hpcai.search.kept_trials import GroupTrial, group_line
from hpcai.search.memory_limit import MemoryLimit
from hpcai.search.messages import Retire, line
from hpcai.search.transport import CoordinatorTransport, LeaderTransport
from hpcai.search.trial_plan import TrialPlan
from hpcai.search.trial_request import TrialRequest
from hpcai.search.trial_run import SearchHooks, TrialOutcome, run_trial, trial_record
from hpcai.search.weights_file import save_weights, weights_on_host
from hpcai.train.loop import Training

REQUEST_AT = 0.5  # share of a trial's steps, from which on the next trial is requested
PAUSE = 0.0005  # seconds between two polls of a leader that waits
LOST = "it lost a trial before the search was resumed"


class OutOfMemory(Exception):
    """A network does not fit on at least one rank of its group; raised on all of them."""


@dataclass
class GroupLeader:
    """What only the first rank of a group has; only rank 0 of all is the `coordinator`'s."""

    request: TrialRequest
    transport: CoordinatorTransport | LeaderTransport

    @property
    def coordinator(self) -> CoordinatorTransport | None:
        """The coordinator's transport, on rank 0 alone."""
        return self.transport if isinstance(self.transport, CoordinatorTransport) else None


@dataclass
class _EndedTrial:
    """A trial whose weights are being written; it is returned to the coordinator afterwards."""

    saved: Future[str | None]  # SHA-256 of the weights
    plan: TrialPlan
    record: Trial
    found: TrialFindings  # of the group
    taken: Sequence[str]


class GroupRunner:
    """Runs the trials of a group, on one of its ranks. Collective over the group, except for the leader's messages."""

    def __init__(
        self,
        group: Group,
        device: torch.device,
        builder: ChildBuilder,
        thread: ThreadPoolExecutor,
        leader: GroupLeader | None,
        assemble: Callable[[TrialPlan, Child], Training],
        deviation: Callable[[Training], float],
        folder: Path,
        now: Callable[[], float],
        memory: MemoryLimit,
        duration: float,
        rounds: int,
        epochs: int,
    ) -> None:
        """`assemble` makes the training of a trial, or raises OutOfMemory; `duration`, `rounds`: no limit if 0.

        deviation: as in SearchHooks.
        """
        self.totals = GroupTotals()
        self.left = ""  # why this group has left the search
        self._group, self._device, self._builder, self._thread, self._leader = group, device, builder, thread, leader
        self._assemble, self._deviation = assemble, deviation
        self._folder, self._now, self._memory = folder, now, memory
        self._duration, self._rounds, self._epochs = duration, rounds, epochs
        self._early_child: tuple[int, Future[Child]] | None = None  # number and network of the next trial, on members
        self._round = 1
        self._requested = 0  # the round that the leader has requested
        self._ended_trials: deque[_EndedTrial] = deque()
        self._unnoted = 0
        self._message_error: Exception | None = None

    def restore(self, trials: Sequence[Trial], found: Iterable[TrialFindings]) -> None:
        """Go on after the group's trials of earlier jobs; its leader knows what was found in them."""
        self.totals.restore(trials, found)
        for trial in trials:
            self._round = trial.round + 1
            self._memory.note_peak(trial.nbytes, trial.planned_bytes)
            self.left = LOST if trial.end == "lost" else ""

    def run(self, shutdown: Shutdown, report: Callable[[str, float], None]) -> None:
        """Run trials until there are no more."""
        if not self.left:
            self._request(self._round)
        while not self.left and (plan := self._next(shutdown)) is not None:
            self._run_trial(plan, shutdown, lambda text: report(text, self._share()))
            self._round += 1
            if not self.left:
                self._request(self._round)
        if self._leader:
            self._finish(self._leader)

    def _finish(self, leader: GroupLeader) -> None:
        """Give back the trial that was not begun, and wait until all results are noted."""
        leader.request.close(self._round - 1)
        while self._ended_trials or self._unnoted or not leader.request.closed:
            self._poll(0.0)
            sleep(PAUSE)
        if self.left or leader.request.exhausted:
            leader.transport.send(Retire(self._group.coordinates.group))

    def _next(self, shutdown: Shutdown) -> TrialPlan | None:
        """The next trial, once the leader has built its network; None if there is none, or time is over."""
        request = self._leader.request if self._leader else None
        while request and not (request.ready or self._late() or shutdown.poll()):
            self._poll(0.0)
            sleep(PAUSE)
        if self._group.degree > 1:
            shutdown.barrier(self._group.model)
        late = self._late() or shutdown.poll() or bool(request and request.ended)
        return self._broadcast(None if request is None or late else request.plan)

    def _broadcast(self, plan: TrialPlan | None) -> TrialPlan | None:
        """The leader's plan, on every rank of the group. Collective."""
        return convert(broadcast(self._group.model, to_builtins(plan)), TrialPlan | None)

    def _share(self) -> float:
        """Share of the search that is done, by its duration or its rounds."""
        by_time = [self._now() / self._duration] if self._duration else []
        return min(1.0, max([*by_time, (self._round - 1) / self._rounds if self._rounds else 0.0]))

    def _late(self) -> bool:
        """Whether it is too late for another trial; the first trial runs at least one step in any case."""
        return self._round > 1 and self._overdue()

    def _overdue(self) -> bool:
        return 0 < self._duration <= self._now()

    def _poll(self, share: float) -> None:
        """Handle messages and advance the request for the next trial; on the leader, between any two steps.

        Rank 0 answers the other leaders when its own request looks for answers.
        """
        if self._leader is None:
            return
        try:
            if share >= REQUEST_AT:
                self._request(self._round + 1)
            if self._ended_trials and self._ended_trials[0].saved.done():
                self._return_trial(self._leader)
            self._unnoted -= self._leader.request.poll()
        except Exception as error:
            self._message_error = error  # not an error of the running trial
            raise

    def _request(self, round_: int) -> None:
        """Request the trial of a round, unless it is requested already."""
        if self._leader and self._requested < round_:
            self._requested = round_
            self._leader.request.begin(round_)

    def _announce_next(self) -> None:
        """Broadcast the plan of the next trial as soon as the leader has it, so that all ranks build its network."""
        if self._group.degree == 1:
            return
        early = self._leader is not None and self._requested > self._round
        plan = self._broadcast(self._leader.request.plan if self._leader and early else None)
        if plan is not None and self._leader is None and (self._early_child or (0,))[0] != plan.id:
            self._early_child = (plan.id, self._thread.submit(self._builder.build, plan, False))

    def _child(self, plan: TrialPlan) -> Child:
        """The network of a trial, on this rank."""
        if self._leader:
            assert self._leader.request.child
            return self._leader.request.child.result()
        if self._early_child is None or self._early_child[0] != plan.id:
            return self._builder.build(plan, False)
        return self._early_child[1].result()

    def _run_trial(self, plan: TrialPlan, shutdown: Shutdown, report: Callable[[str], None]) -> None:
        started, child, phases = self._now(), self._child(plan), Phases(self._device)
        taken = self._leader.request.taken if self._leader else ()
        try:
            outcome = self._outcome(plan, child, phases, shutdown, report)
        except OutOfMemory:
            outcome = TrialOutcome([], "memory", dict(phases.seconds))
        except (HpcaiError, RuntimeError) as error:
            if self._group.degree > 1 or self._group.groups == 1 or error is self._message_error:
                raise  # other ranks wait for this one, or no group is left, or a result cannot be noted
            self.left = f"{type(error).__name__}: {error}"
            print(f"hpcai: group {plan.worker} leaves the search: {self.left}", file=sys.stderr, flush=True)
            outcome = TrialOutcome([], "lost", dict(phases.seconds))
        outcome.planned_bytes = self._memory.planned(child.graph, plan.hyperparameters.batch)
        self._memory.note_peak(outcome.nbytes, outcome.planned_bytes)
        found = self.totals.add(child, outcome).of_group(self._group)
        if self._leader:
            self._save(plan, trial_record(plan, child, outcome, started), outcome, found, taken)

    def _outcome(
        self, plan: TrialPlan, child: Child, phases: Phases, shutdown: Shutdown, report: Callable[[str], None]
    ) -> TrialOutcome:
        hooks = SearchHooks(self._now, self._poll, self._overdue, self._announce_next, self._deviation)
        with phases.measure("warm_up"):
            training = self._assemble(plan, child)
            training.warm_up()
        return run_trial(plan, training, phases, shutdown, hooks, report)

    def _save(
        self, plan: TrialPlan, record: Trial, outcome: TrialOutcome, found: TrialFindings, taken: Sequence[str]
    ) -> None:
        """Write the weights in the thread, if the trial can be a parent."""
        saved: Future[str | None] = Future()
        if outcome.training and outcome.end in COMPLETED:
            state = weights_on_host(outcome.training.state.module)
            saved = self._thread.submit(save_weights, self._folder, plan.id, state)
        else:
            saved.set_result(None)
        self._ended_trials.append(_EndedTrial(saved, plan, record, found, taken))

    def _return_trial(self, leader: GroupLeader) -> None:
        """Send the result of a trial whose weights are saved to the coordinator."""
        ended = self._ended_trials.popleft()
        digest = ended.saved.result()
        self.totals.last_return = self._now()
        plan, request = ended.plan, leader.request
        record = replace(ended.record, returned=self.totals.last_return, weights_sha256=digest)
        told = finished(record, plan.ancestry + plan.morphisms, self._epochs)
        kept = GroupTrial(ended.found, ended.taken, request.waits, request.proposals, request.rejected)
        self._unnoted += 1
        leader.transport.send(result(record, told), line(told), line(record), group_line(kept))
