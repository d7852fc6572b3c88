"""Coordinator of a search: grants trials to the groups' leaders, so that no network is tried twice.

It takes messages and returns replies; it has no clock, thread or connection. Its memory does not grow with the trials
except for the digest of each granted network; the journal holds all trials.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hpcai.formulas.trial_schedule import number
from hpcai.search.lagged_trial_cache import LaggedTrialCache
from hpcai.search.messages import (
    END,
    NOTED,
    TAKEN,
    Ask,
    Claim,
    Forgo,
    Granted,
    RecordedTrial,
    Request,
    Result,
    Retire,
    encoded,
    history,
)
from hpcai.search.recorded_trials import RecordedTrials
from hpcai.search.search_rules import Counts, SearchRules, known_trials

Reply = tuple[int, bytes]  # the worker that it is for, and the encoded answer


@dataclass
class _Worker:
    """The trials that a worker was granted and has not returned, and the round of the last trial that it returned."""

    running: set[int] = field(default_factory=set)
    returned: int = 0
    retired: bool = False


class Coordinator:
    """Knows which networks were tried and which trials are running."""

    def __init__(self, rules: SearchRules, record: Callable[[Result, Sequence[bytes]], object]) -> None:
        """`record` is called once with every result and its two lines: the FinishedTrial, and the journal's line."""
        self.rules = rules
        self.counts = Counts()
        self._record = record
        self._over = False
        self._workers = [_Worker() for _ in range(rules.workers)]
        self._networks: set[str] = set()
        self._trials = known_trials(rules)
        self._asking: dict[int, list[Ask]] = {}  # by the round, or the recorded trial, that they wait for
        self._claims: dict[int, Claim] = {}  # by the number that the trial would have
        self._next_claim = 1  # the number whose claim is decided next, where claims have an order
        self._restored: set[int] = set()  # numbers of trials of earlier jobs, which nobody claims

    def restore(self, trials: Iterable[tuple[Result, bytes, str]], counts: Counts) -> None:
        """Go on after trials that returned, in this order: with the FinishedTrial's line and the network's digest."""
        for result, finished, network in trials:
            self._workers[result.worker].returned = result.round
            self._networks.add(network)
            self._restored.add(result.id)
            self._trials.add(result.round, result.id, result.value, result.parent, finished)
        self.counts = counts

    def leave_out(self, lost: Iterable[int]) -> None:
        """Go on without these workers, after what they returned."""
        for index in lost:
            self._workers[index].retired = True
            self._trials.leave(index, self._workers[index].returned)

    def handle(self, message: Request, now: float, lines: Sequence[bytes] = ()) -> Iterator[Reply]:
        """Handle a worker's message at `now` seconds; the replies that are due, to that worker or to others."""
        self.counts.requests += 1
        match message:
            case Ask():
                yield from self._ask(message, now)
            case Claim():
                yield from self._claim(message, now)
            case Result():
                settled = self._add(message, lines)
                yield message.worker, NOTED
                yield from self._release(settled, now)
            case Forgo():
                self._forgo(message.worker, message.id)
                yield from self._release([*self._asking], now)
            case Retire():
                self._retire(message.worker)
                yield from self._release([*self._asking], now)
                yield from self._decide_next_claims(now)

    def end(self, why: str, now: float) -> Iterator[Reply]:
        """Grant no more trials; the replies to all requests that wait."""
        self._over = True
        self.counts.ended_by = self.counts.ended_by or why
        yield from self._release([*self._asking], now)
        yield from self._decide_next_claims(now)

    @property
    def running(self) -> int:
        """Trials that were granted and have not returned."""
        return sum(len(worker.running) for worker in self._workers)

    def needed(self) -> set[int]:
        """Numbers of the trials whose weights a trial can still begin with."""
        return self._trials.needed()

    def _number(self, request: Ask | Claim) -> int:
        return number(request.round, request.worker, self.rules.workers)

    def _add(self, result: Result, lines: Sequence[bytes]) -> Iterable[int]:
        """Note a result; returns the rounds or trials that waiting requests no longer have to wait for."""
        worker = self._holder(result.worker, result.id)
        worker.running.discard(result.id)
        worker.returned = result.round
        self.counts.returned += 1
        settled = self._trials.add(result.round, result.id, result.value, result.parent, lines[0])
        self._record(result, lines)
        return settled

    def _holder(self, index: int, trial: int) -> _Worker:
        worker = self._workers[index]
        if trial not in worker.running:
            raise ValueError(f"worker {index} gave back trial {trial}, which it was not given")
        return worker

    def _forgo(self, index: int, trial: int) -> None:
        """A worker cannot run a trial that it was granted; a recorded trial is then run by nobody."""
        self._holder(index, trial).running.discard(trial)
        self.counts.granted -= 1
        if isinstance(self._trials, RecordedTrials):
            self._trials.leave(index, (trial - 1) // self.rules.workers)

    def _retire(self, index: int) -> None:
        """A worker leaves: its granted trials are lost, and no request waits for them."""
        worker = self._workers[index]
        worker.retired = True
        worker.running.clear()
        self.counts.retired += 1
        self._claims = {key: claim for key, claim in self._claims.items() if claim.worker != index}
        self._asking = {key: [ask for ask in asking if ask.worker != index] for key, asking in self._asking.items()}
        self._trials.leave(index, worker.returned)

    def _ask(self, ask: Ask, now: float) -> Iterator[Reply]:
        """The history, or a recorded trial; the request is kept if it must wait."""
        awaited = 0 if self._ended(ask) else self._trials.awaited(ask.round, ask.worker)
        if awaited:
            self._asking.setdefault(awaited, []).append(ask)
        else:
            yield ask.worker, self._answer(ask, now)

    def _release(self, settled: Iterable[int], now: float) -> Iterator[Reply]:
        """Replies to requests that waited for these rounds or trials, unless they must wait for others."""
        asking = [ask for key in settled for ask in self._asking.pop(key, ())]
        for ask in asking:
            yield from self._ask(ask, now)

    def _answer(self, ask: Ask, now: float) -> bytes:
        if self._ended(ask):
            return END
        if isinstance(self._trials, RecordedTrials):
            return self._grant(ask, now, recorded=self._trials.trial(ask.round, ask.worker))
        until, trials = self._trials.reply(ask.round, ask.since)
        return history(until, (trial.text for trial in trials))

    def _ended(self, request: Ask | Claim) -> bool:
        why = self._limit(request.round, request.worker)
        self.counts.ended_by = self.counts.ended_by or why
        return self._over or bool(why)

    def _limit(self, round_: int, worker: int) -> str:
        """Why there is no trial of this round for a worker; where claims have an order, the first numbers count."""
        if self.rules.rounds and round_ > self.rules.rounds:
            return "rounds"
        if isinstance(self._trials, RecordedTrials):
            return "" if self._trials.trial(round_, worker) else "trials"
        ordered = isinstance(self._trials, LaggedTrialCache)
        before = number(round_, worker, self.rules.workers) - 1 if ordered else self.counts.granted
        return "trials" if 0 < self.rules.trials <= before else ""

    def _claim(self, claim: Claim, now: float) -> Iterator[Reply]:
        """The decision on a claim; where claims have an order, once all earlier ones are decided."""
        key = self._number(claim)
        if isinstance(self._trials, LaggedTrialCache) and key >= self._next_claim:
            self._claims[key] = claim
            yield from self._decide_next_claims(now)
        else:
            yield claim.worker, self._decide(claim, now)

    def _decide_next_claims(self, now: float) -> Iterator[Reply]:
        """Replies to the claims that are next."""
        for key in [*self._claims] if self._over else self._next_claims():
            claim = self._claims.pop(key)
            yield claim.worker, self._decide(claim, now)

    def _next_claims(self) -> Iterator[int]:
        """Numbers of the next claims that have arrived; those that nobody makes are skipped."""
        while self._claims:
            while self._is_skipped(self._next_claim):
                self._next_claim += 1
            if self._next_claim not in self._claims:
                return
            yield self._next_claim

    def _is_skipped(self, trial: int) -> bool:
        return trial in self._restored or self._workers[(trial - 1) % self.rules.workers].retired

    def _decide(self, claim: Claim, now: float) -> bytes:
        """Grant the first claimed network that is not taken; or all are taken, or the search is over."""
        if self._ended(claim):
            return END
        free = (place for place, network in enumerate(claim.networks) if network not in self._networks)
        place = next(free, None)
        self.counts.duplicates += len(claim.networks) if place is None else place
        if place is None:
            return TAKEN
        self._networks.add(claim.networks[place])
        self._next_claim = max(self._next_claim, self._number(claim) + 1)
        return self._grant(claim, now, place=place)

    def _grant(
        self, request: Ask | Claim, now: float, place: int | None = None, recorded: RecordedTrial | None = None
    ) -> bytes:
        trial = self._number(request)
        self._workers[request.worker].running.add(trial)
        self.counts.granted += 1
        return encoded(Granted(trial, now, place, recorded))
