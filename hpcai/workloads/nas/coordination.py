"""The coordinator of a search, on rank 0: what it records of each trial, and when the search ends."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from mpi4py import MPI
from msgspec import Raw

from hpcai import clock
from hpcai.comm.shutdown import Shutdown
from hpcai.errors import DataError
from hpcai.inputfile import Case
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import lineage
from hpcai.search import journal
from hpcai.search.convergence import Convergence
from hpcai.search.coordinator import Coordinator
from hpcai.search.earlier_trials import EarlierTrials, result, returned
from hpcai.search.kept_trials import KeptTrial, kept_line
from hpcai.search.messages import RecordedTrial, Result, decoded_finished_trial, line
from hpcai.search.recorded_trials import read_recorded_trials
from hpcai.search.search_rules import Counts, SearchRules
from hpcai.search.storage import SearchStorage
from hpcai.search.transport import CoordinatorTransport
from hpcai.workloads.nas.resumed import EarlierJobs


def rules_of(case: Case, recorded: dict[int, RecordedTrial] | None) -> SearchRules:
    """The rules of a search; recorded: the trials of a recorded one by number, if it is run again."""
    lag = case["LAG"] if case["REPLAY"] == "rounds" else None
    return SearchRules(case.planned_groups, case["TRIALS"], case["ROUNDS"], lag, recorded)


class Coordination:
    """The coordinator and its transport; `now`: seconds since the search began; `kept`: the file beside the journal."""

    def __init__(
        self,
        case: Case,
        leaders: MPI.Comm,
        storage: SearchStorage,
        kept: Path,
        earlier: EarlierJobs,
        initial: Graph,
        convergence: Convergence | None,
        now: Callable[[], float],
        shutdown: Shutdown,
    ) -> None:
        self._case, self._storage, self._kept, self._clock = case, storage, kept, earlier.clock
        self._convergence, self._now, self._shutdown = convergence, now, shutdown
        recorded = read_recorded_trials(Path(case.recording), case.planned_groups) if case.recording else None
        self._coordinator = Coordinator(rules_of(case, recorded), self._record)
        storage.needed = self._coordinator.needed
        self.transport = CoordinatorTransport(leaders, self._coordinator, now, self._ended, case.models)
        if earlier.trials.trials:
            _compare(case, earlier.trials, recorded)
            self._restore(earlier.trials, initial)
        self._coordinator.leave_out(case.lost)

    def _restore(self, earlier: EarlierTrials, initial: Graph) -> None:
        """Go on after the trials of earlier jobs. DataError where weights that trials need are not there."""
        trials, last = earlier.trials, earlier.kept[-1]
        graphs, told = lineage(initial, trials), [*returned(trials, self._case.epochs)]
        known = ((result(trial, each), line(each), digest(graphs[trial.id])) for trial, each in told)
        counts = Counts(last.requests, len(trials), last.duplicates, len(trials))
        self._coordinator.restore(known, counts)
        self.transport.busy_seconds = last.busy_seconds
        self._storage.check_weights(trials)
        for trial, each in told if self._convergence else ():
            assert self._convergence
            self._convergence.add(trial, each.chain)

    def _record(self, result: Result, lines: Sequence[bytes]) -> None:
        """Append a trial that returned to the journal, after what is kept beside it."""
        finished, text, of_group = lines
        journal.append_line(self._kept, result.id, kept_line(self._beside(result, text, of_group)))
        self._storage.append(result.id, text, result.cut)
        if self._convergence:
            self._convergence.add(journal.decode(text), decoded_finished_trial(finished).chain)

    def _beside(self, result: Result, text: bytes, of_group: bytes) -> KeptTrial:
        counts, seconds, utc = self._coordinator.counts, self._now(), clock.utc_instant().timestamp()
        return KeptTrial(
            trial=result.id,
            sha256=sha256(text).hexdigest(),
            seconds=seconds,
            utc=utc,
            began=self._clock.began or utc - seconds,
            requests=counts.requests,
            duplicates=counts.duplicates,
            busy_seconds=self.transport.busy_seconds,
            interrupted=self._clock.interrupted,
            resumed=self._clock.resumed,
            group=Raw(of_group),
        )

    def _ended(self, seconds: float) -> str:
        """Why the search ends `seconds` after it began; empty if it goes on."""
        if self._shutdown.poll():
            return self._shutdown.cause
        if self._coordinator.counts.granted >= self._case.groups and 0 < self._case["DURATION"] <= seconds:
            return "duration"
        return "converged" if self._convergence and self._convergence.reached(seconds) else ""


def _compare(case: Case, earlier: EarlierTrials, recorded: dict[int, RecordedTrial] | None) -> None:
    """DataError where the search that is resumed was of another recording."""
    for trial in earlier.trials if recorded is not None else ():
        same = recorded.get(trial.id) if recorded else None
        if same is None or same.morphisms != trial.morphisms:
            raise DataError(f"{case.recording}: trial {trial.id} is not that of the search that is resumed")
