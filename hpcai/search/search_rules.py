"""The rules of a search, what is counted by them, and which trials a trial knows by them."""

from dataclasses import dataclass

from hpcai.search.lagged_trial_cache import LaggedTrialCache
from hpcai.search.messages import RecordedTrial
from hpcai.search.recorded_trials import RecordedTrials
from hpcai.search.trial_cache import TrialCache


@dataclass(frozen=True)
class SearchRules:
    """When a search ends, and what a trial may know.

    `trials` and `rounds`: no limit if 0. `lag`: None where a trial may know all results so far; else it knows those of
    the rounds that are more than so many rounds back. `recorded`: trials by number that are run again; then nothing is
    proposed.
    """

    workers: int
    trials: int = 0
    rounds: int = 0
    lag: int | None = None
    recorded: dict[int, RecordedTrial] | None = None


@dataclass
class Counts:
    """What the coordinator was asked, and what it did."""

    requests: int = 0
    granted: int = 0
    duplicates: int = 0
    returned: int = 0
    retired: int = 0
    ended_by: str = ""


def known_trials(rules: SearchRules) -> TrialCache | LaggedTrialCache | RecordedTrials:
    """The trials that returned, as the rules let other trials know them; none yet."""
    if rules.recorded is not None:
        return RecordedTrials(rules.recorded, rules.workers, rules.trials, rules.rounds)
    return TrialCache(rules.workers) if rules.lag is None else LaggedTrialCache(rules.workers, rules.lag)
