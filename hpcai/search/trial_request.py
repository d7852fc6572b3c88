"""How a leader gets its next trial: bit by bit, between the steps of the one that runs.

It asks for the history, chooses in a thread of its own, claims what it chose, and raises the network in that thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, Protocol

from hpcai.clock import now
from hpcai.search.child_builder import Child, Gone, Nursery
from hpcai.search.transport import Line
from hpcai.search.trial_plan import Plan

Json = dict[str, Any]
MOST_ATTEMPTS = 20  # to find a network that nobody has tried and that keeps to the limits


class Proposal(NamedTuple):
    """A trial that a leader would like to run; `network` is the same for two networks only if they are alike."""

    parent: int | None
    ancestry: list[Json]
    morphisms: list[Json]
    network: str
    batch: int
    kernel: int


class Chooser(Protocol):
    """Chooses what to try next; `rejected` counts networks that did not keep to the limits."""

    rejected: int

    def learn(self, entries: Sequence[Json]) -> None:
        """Trials that came back, in an order that is the same in every run where runs are to be the same."""

    def proposals(self, round_: int, attempt: int) -> list[Proposal]:
        """The best ones first, or none; another `attempt` gives others."""


class Errand:
    """The next trial of a leader. `begin` starts it; `poll` goes on with it, and takes microseconds."""

    def __init__(
        self,
        line: Line,
        chooser: Chooser,
        nursery: Nursery,
        thread: Executor,
        worker: int,
        limits: Callable[[int], tuple[int, int]],
    ) -> None:
        """`thread` runs one thing at a time; `limits`: epochs and patience of a round."""
        self.plan: Plan | None = None
        self.child: Future[Child] | None = None
        self.ended = self.exhausted = False  # there is no more to try, at all or for this one
        self.seconds: list[float] = []  # of proposals, in the thread
        self.waits: list[float] = []  # for answers
        self._line, self._chooser, self._nursery, self._thread = line, chooser, nursery, thread
        self._worker, self._limits = worker, limits
        self._known = 0
        self._round = self._attempt = 0
        self._proposals: list[Proposal] = []
        self._choosing: Future[list[Proposal]] | None = None
        self._asked = 0.0
        self._awaits = self._closing = False

    def begin(self, round_: int) -> None:
        """Ask for a trial of that round."""
        self.plan, self.child = None, None
        self._round, self._attempt = round_, 0
        self._ask()

    def close(self, begun: int) -> None:
        """There will be no more trials: give back what was granted, now or later, of rounds after those `begun`."""
        self._closing, self._choosing = True, None
        if self.plan is not None and self.plan.round > begun:
            self._give_up(self.plan.id)

    @property
    def closed(self) -> bool:
        """Whether no answer is on its way any more."""
        return not self._awaits

    @property
    def rejected(self) -> int:
        """Networks that were not proposed, for they did not keep to the limits."""
        return self._chooser.rejected

    @property
    def ready(self) -> bool:
        """Whether the trial can begin, or there is none."""
        return self.ended or (self.child is not None and self.child.done() and not self._gone)

    @property
    def _gone(self) -> bool:
        """Whether the network could not be made, for its parent's weights are gone."""
        return self.child is not None and self.child.done() and isinstance(self.child.exception(), Gone)

    def poll(self) -> bool:
        """Go on as far as nothing has to be waited for; whether a result was taken in, as an answer says."""
        if self._choosing is not None and self._choosing.done():
            self._claim(self._choosing.result())
        if self._gone:
            self._forgo()
        message = self._line.receive()
        if message is None:
            return False
        if message["kind"] == "noted":
            return True
        self.waits.append(now() - self._asked)
        self._awaits = False
        if not self._closing:
            self._take(message)
        elif message["kind"] == "granted":
            self._give_up(message["id"])
        return False

    def _send(self, kind: str, **rest: Any) -> None:
        self._asked, self._awaits = now(), True
        self._line.send({"kind": kind, "worker": self._worker, "round": self._round, **rest})

    def _ask(self) -> None:
        self._send("ask", since=self._known)

    def _forgo(self) -> None:
        """Give a trial back whose parent's weights are gone, and ask for another."""
        assert self.plan is not None
        self._give_up(self.plan.id)
        self._attempt += 1
        self._ask()

    def _give_up(self, trial: int) -> None:
        self.plan, self.child = None, None
        self._line.send({"kind": "forgo", "worker": self._worker, "id": trial})

    def _take(self, message: Json) -> None:
        match message["kind"]:
            case "end":
                self.ended = True
            case "history":
                self._known = message["until"]
                self._choosing = self._thread.submit(self._chosen, message["entries"])
            case "taken":
                self._attempt += 1
                self.ended = self.exhausted = self._attempt == MOST_ATTEMPTS
                if not self.ended:
                    self._choosing = self._thread.submit(self._chosen, [])
            case "granted":
                self._raise(message)

    def _chosen(self, entries: Sequence[Json]) -> list[Proposal]:
        begin = now()
        self._chooser.learn(entries)
        found = self._chooser.proposals(self._round, self._attempt)
        self.seconds.append(now() - begin)
        return found

    def _claim(self, proposals: list[Proposal]) -> None:
        self._proposals, self._choosing = proposals, None
        self._send("claim", networks=[proposal.network for proposal in proposals])

    def _raise(self, grant: Json) -> None:
        """The trial is this leader's: make its network ready."""
        epochs, patience = self._limits(self._round)
        chosen = _recorded(grant["recorded"]) if "recorded" in grant else self._proposals[grant["place"]]
        self.plan = Plan(
            id=grant["id"],
            worker=self._worker,
            round=self._round,
            given=grant["given"],
            parent=chosen.parent,
            ancestry=chosen.ancestry,
            morphisms=chosen.morphisms,
            batch=chosen.batch,
            kernel=chosen.kernel,
            epochs=epochs,
            patience=patience,
        )
        self.child = self._thread.submit(self._nursery.raised, self.plan, True)


def _recorded(trial: Json) -> Proposal:
    given = trial["hyperparameters"]
    return Proposal(
        trial["parent"], trial["ancestry"], trial["morphisms"], "", given["batch"], given["kernel"]
    )
