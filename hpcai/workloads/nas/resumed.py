"""A resumed search: the trials of earlier jobs, its clock, and the time that was lost between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpi4py import MPI
from msgspec import convert, to_builtins

from hpcai import clock
from hpcai.clock import Phases
from hpcai.comm.grid import Group
from hpcai.comm.world import broadcast
from hpcai.record.trial import Trial
from hpcai.search import earlier_trials, journal, kept_trials
from hpcai.search.earlier_trials import EarlierTrials, returned
from hpcai.search.group_runner import GroupRunner
from hpcai.search.kept_trials import GroupTrial, group_of
from hpcai.search.learnt_again import learn_again
from hpcai.search.search_rules import SearchRules
from hpcai.search.storage import SearchStorage
from hpcai.search.suggester import Suggester
from hpcai.search.trial_request import TrialRequest
from hpcai.training.times import PhaseAccount


@dataclass(frozen=True)
class SearchClock:
    """The clock of a search that is resumed, the same on every active rank.

    began: when the search began, seconds since 1970. seconds: of the search when its last trial was noted. interrupted:
    seconds of all interruptions. resumed: seconds of the search at each resumption.
    """

    began: float = 0.0
    seconds: float = 0.0
    interrupted: float = 0.0
    resumed: tuple[float, ...] = ()

    @property
    def elapsed(self) -> float:
        """Seconds since the search began, with all interruptions; 0 if this job begins it."""
        return max(0.0, clock.utc_instant().timestamp() - self.began) if self.resumed else 0.0

    def restore(self, phases: Phases, account: PhaseAccount) -> None:
        """Count the time of the earlier jobs' searches; the time without one is a phase of its own."""
        if self.resumed:
            phases.seconds |= {"search": self.seconds, "interrupted": self.interrupted}
            account.add(self.seconds)


@dataclass(frozen=True)
class EarlierJobs:
    """What earlier jobs left: trials of this rank's group, what it found in them, and those of all groups.

    Only leaders have the latter two, and the first one what lost groups left: `lost`, a pair for each.
    """

    clock: SearchClock
    own: Sequence[Trial]
    of_group: Sequence[GroupTrial]
    trials: EarlierTrials
    lost: Sequence[tuple[Sequence[Trial], Sequence[GroupTrial]]] = ()

    def restore(self, runner: GroupRunner) -> None:
        """Let the runner of this rank's group go on; that of the first leader answers for the lost groups."""
        runner.restore(self.own, [each.found for each in self.of_group])
        for trials, of_group in self.lost:
            runner.totals.adopt(trials, [each.found for each in of_group])

    @property
    def counted(self) -> list[GroupTrial]:
        """What the leader of each lost group had counted when its last trial returned."""
        return [of_group[-1] for _, of_group in self.lost if of_group]

    def teach(self, request: TrialRequest, suggester: Suggester, rules: SearchRules, worker: int, epochs: int) -> None:
        """Let this leader know what it knew when it chose its last trial, and had counted when that returned."""
        known = learn_again(suggester, rules, worker, returned(self.trials.trials, epochs))
        for each in self.of_group:
            suggester.exclude(each.taken)
        if self.of_group:
            last = self.of_group[-1]
            suggester.rejected = last.rejected
            request.restore(known, rules.lag is None and rules.recorded is None, last.proposals, last.waits)


def earlier_jobs(
    group: Group,
    leaders: MPI.Comm,
    storage: SearchStorage,
    kept: Path,
    duration: float,
    begun: float,
    lost: Sequence[int] = (),
) -> EarlierJobs:
    """What earlier jobs left; if that is nothing, the folder of the search is made anew. Collective over the grid.

    leaders: of all groups, on leaders. kept: the file beside the journal. duration: DURATION. begun: when this job
    began the test, seconds since 1970, on rank 0. lost: groups that are left out.
    """
    found = _read(storage, kept, duration) if group.active.rank == 0 else EarlierTrials()
    at = convert(broadcast(group.active, to_builtins(_clock(found, begun))), SearchClock)
    if group.leader:
        found = _received(broadcast(leaders, _sent(found)))
    own, of_group = _of(found, group.coordinates.group)
    own = convert(broadcast(group.model, to_builtins(own)), list[Trial])
    first = group.active.rank == 0
    return EarlierJobs(at, own, of_group, found, [_of(found, worker) for worker in lost] if first else ())


def _of(found: EarlierTrials, worker: int) -> tuple[list[Trial], list[GroupTrial]]:
    """The trials of a group, and what it found in them."""
    pairs = [(trial, kept) for trial, kept in zip(found.trials, found.kept, strict=True) if trial.worker == worker]
    return [trial for trial, _ in pairs], [group_of(kept) for _, kept in pairs]


def _read(storage: SearchStorage, kept: Path, duration: float) -> EarlierTrials:
    found = earlier_trials.read(storage.folder, kept, duration)
    if found.trials:
        storage.restore(found.trials, found.lines)
    else:
        kept.unlink(missing_ok=True)
        storage.create()
    kept.parent.mkdir(parents=True, exist_ok=True)
    return found


def _clock(found: EarlierTrials, begun: float) -> SearchClock:
    if not found.kept:
        return SearchClock()
    last = found.kept[-1]
    interrupted = last.interrupted + max(0.0, begun - last.utc)
    return SearchClock(last.began, last.seconds, interrupted, (*last.resumed, last.seconds))


def _sent(found: EarlierTrials) -> list[tuple[str, str]]:
    """The trials as leaders get them."""
    kept = map(kept_trials.kept_line, found.kept)
    return [(line.decode(), beside.decode()) for line, beside in zip(found.lines, kept, strict=True)]


def _received(lines: Sequence[tuple[str, str]]) -> EarlierTrials:
    trials = [journal.decode(line.encode()) for line, _ in lines]
    kept = [kept_trials.decoded(beside.encode()) for _, beside in lines]
    return EarlierTrials(trials, kept, [line.encode() for line, _ in lines])
