"""What a leader of a resumed search had learnt of the trials of earlier jobs, in the same steps."""

from collections.abc import Iterable

from hpcai.record.trial import Trial
from hpcai.search.lagged_trial_cache import LaggedTrialCache
from hpcai.search.messages import FinishedTrial
from hpcai.search.proposal import ProposalSource
from hpcai.search.recorded_trials import RecordedTrials
from hpcai.search.search_rules import SearchRules, known_trials


def learn_again(
    source: ProposalSource, rules: SearchRules, worker: int, trials: Iterable[tuple[Trial, FinishedTrial]]
) -> int:
    """Let a worker's source learn what it knew when it chose its last trial; how many trials it then knew.

    trials: of all workers, in the order in which they returned. Of a recorded search nothing is learnt.
    """
    cache = known_trials(rules)
    if isinstance(cache, RecordedTrials):
        return 0
    known, told_of = 0, dict[int, FinishedTrial]()
    left, last = set[int](), dict.fromkeys(range(rules.workers), 0)
    for trial, told in trials:
        if trial.worker == worker:
            if isinstance(cache, LaggedTrialCache):
                _leave(cache, cache.awaited(trial.round, worker), last, left)
            known, new = cache.reply(trial.round, known)
            source.learn([told_of[each.id] for each in new])
        cache.add(trial.round, trial.id, told.value, told.parent, b"")
        told_of[trial.id], last[trial.worker] = told, trial.round
    return known


def _leave(cache: LaggedTrialCache, awaited: int, last: dict[int, int], left: set[int]) -> None:
    """Workers that had not returned a trial of a round that was awaited had left the search."""
    for worker, round_ in last.items():
        if round_ < awaited and worker not in left:
            left.add(worker)
            cache.leave(worker, round_)
