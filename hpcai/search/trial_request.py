"""A leader's request for its next trial, which advances between the training steps of the running trial.

It asks for the history, chooses a proposal in a thread, claims it, and builds the network in that thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future

from hpcai.clock import now
from hpcai.search.child_builder import Child, ChildBuilder
from hpcai.search.durations import Durations
from hpcai.search.messages import Answer, Ask, Claim, End, FinishedTrial, Forgo, Granted, History, Noted, Request, Taken
from hpcai.search.proposal import Proposal, ProposalSource
from hpcai.search.transport import Transport
from hpcai.search.trial_plan import TrialPlan
from hpcai.search.weights_file import WeightsRemoved

MOST_ATTEMPTS = 20  # to find a network that nobody has tried and that keeps to the limits


class TrialRequest:
    """The next trial of a leader. `begin` starts the request; `poll` advances it, and takes microseconds."""

    def __init__(
        self,
        transport: Transport,
        source: ProposalSource,
        builder: ChildBuilder,
        thread: Executor,
        worker: int,
        limits: Callable[[int], tuple[int, int]],
    ) -> None:
        """`thread` runs one task at a time; `limits`: epochs and patience of a round."""
        self.plan: TrialPlan | None = None
        self.child: Future[Child] | None = None
        self.ended = self.exhausted = False  # no more trials at all; because no new network was found
        self.proposals, self.waits = Durations(), Durations()  # proposals in the thread; waits for answers
        self.taken: Sequence[str] = ()  # networks that were proposed in vain before that of `plan`
        self._transport, self._source, self._builder, self._thread = transport, source, builder, thread
        self._worker, self._limits = worker, limits
        self._known = 0
        self._round = self._attempt = 0
        self._claimed: list[Proposal] = []
        self._proposing: Future[list[Proposal]] | None = None
        self._sent = 0.0  # when the last message was sent that has an answer
        self._waiting = self._closing = self._informed = False

    def restore(self, known: int, informed: bool, proposals: Durations, waits: Durations) -> None:
        """Go on after trials of an earlier job, of which the source has learnt the first `known`.

        informed: choose the first trial from these alone, as if it were requested while the last one ran.
        """
        self._known, self._informed, self.proposals, self.waits = known, informed, proposals, waits

    def begin(self, round_: int) -> None:
        """Ask for a trial of that round."""
        self.plan, self.child = None, None
        self._round, self._attempt = round_, 0
        if self._informed:
            self._informed, self._proposing = False, self._thread.submit(self._propose, ())
        else:
            self._ask()

    def close(self, begun: int) -> None:
        """Run no more trials: give back what was or will be granted of rounds after those `begun`."""
        self._closing, self._proposing = True, None
        if self.plan is not None and self.plan.round > begun:
            self._hand_back(self.plan.id)

    @property
    def closed(self) -> bool:
        """Whether no answer is due any more."""
        return not self._waiting

    @property
    def rejected(self) -> int:
        """Networks that were not proposed because they did not keep to the limits."""
        return self._source.rejected

    @property
    def ready(self) -> bool:
        """Whether the trial can begin, or there is none."""
        return self.ended or (self.child is not None and self.child.done() and not self._parent_removed)

    @property
    def _parent_removed(self) -> bool:
        """Whether the network could not be built because the parent's weights were removed."""
        return self.child is not None and self.child.done() and isinstance(self.child.exception(), WeightsRemoved)

    def poll(self) -> bool:
        """Advance as far as possible without waiting; whether the answer was that a result was noted."""
        if self._proposing is not None and self._proposing.done():
            self._claim(self._proposing.result())
        if self._parent_removed:
            self._forgo()
        answer = self._transport.receive()
        if answer is None:
            return False
        if isinstance(answer, Noted):
            return True
        self.waits.add(now() - self._sent)
        self._waiting = False
        if not self._closing:
            self._take(answer)
        elif isinstance(answer, Granted):
            self._hand_back(answer.id)
        return False

    def _send(self, message: Request) -> None:
        self._sent, self._waiting = now(), True
        self._transport.send(message)

    def _ask(self) -> None:
        self._send(Ask(self._worker, self._round, self._known))

    def _forgo(self) -> None:
        """Give back a trial whose parent's weights were removed, and ask for another."""
        assert self.plan is not None
        self._hand_back(self.plan.id)
        self._attempt += 1
        self._ask()

    def _hand_back(self, trial: int) -> None:
        self.plan, self.child = None, None
        self._transport.send(Forgo(self._worker, trial))

    def _take(self, answer: Answer) -> None:
        match answer:
            case End():
                self.ended = True
            case History():
                self._known = answer.until
                self._proposing = self._thread.submit(self._propose, answer.entries)
            case Taken():
                self._attempt += 1
                self.ended = self.exhausted = self._attempt == MOST_ATTEMPTS
                if not self.ended:
                    self._proposing = self._thread.submit(self._propose, ())
            case Granted():
                self._build(answer)

    def _propose(self, trials: Sequence[FinishedTrial]) -> list[Proposal]:
        begin = now()
        self._source.learn(trials)
        proposals = self._source.suggest(self._round, self._attempt)
        self.proposals.add(now() - begin)
        return proposals

    def _claim(self, proposals: list[Proposal]) -> None:
        self._claimed, self._proposing = proposals, None
        self._send(Claim(self._worker, self._round, tuple(proposal.network for proposal in proposals)))

    def _build(self, grant: Granted) -> None:
        """Build the network of the granted trial in the thread."""
        assert grant.recorded is not None or grant.place is not None
        chosen = grant.recorded or self._claimed[grant.place or 0]
        epochs, patience = self._limits(self._round)
        self.taken = self._source.taken
        self.plan = TrialPlan(
            id=grant.id,
            worker=self._worker,
            round=self._round,
            given=grant.given,
            parent=chosen.parent,
            ancestry=chosen.ancestry,
            morphisms=chosen.morphisms,
            hyperparameters=chosen.hyperparameters,
            epochs=epochs,
            patience=patience,
        )
        self.child = self._thread.submit(self._builder.build, self.plan, True)
