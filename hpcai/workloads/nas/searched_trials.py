"""A search with its networks and trials by number, for claims about trials."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from hpcai.data.order import Shard
from hpcai.inputfile import Case
from hpcai.inputfile.key import Setting
from hpcai.networks.graph import Graph
from hpcai.record.trial import Trial
from hpcai.results.claim import Subject
from hpcai.workloads.nas.credits import graphs, initial
from hpcai.workloads.nas.record import SearchMeasured
from hpcai.workloads.nas.search_claims import measured


@dataclass(frozen=True)
class Search:
    """A search, its networks and its trials by number."""

    case: Case
    raw: SearchMeasured
    initial: Graph
    graphs: Mapping[int, Graph]
    trials: Mapping[int, Trial]

    def shard(self, trial: Trial) -> Shard:
        """The samples that each rank of a trial's group trains on in an epoch."""
        return Shard(self.raw.dataset.training_samples, 0, self.case.degree, trial.hyperparameters.batch)


def search_of(subject: Subject) -> Search:
    """The search of a subject; its networks are built once."""
    case = subject.case
    return _search(case.index, case.workload, tuple(sorted(case.settings.items())), measured(subject))


@lru_cache(maxsize=4)
def _search(index: int, workload: str, settings: tuple[tuple[str, Setting], ...], raw: SearchMeasured) -> Search:
    case = Case(index, workload, dict(settings))
    trials = {trial.id: trial for trial in raw.trials}
    return Search(case, raw, initial(case, raw), graphs(case, raw), trials)


TrialHolds = Callable[[Search, Trial], bool]


def of_trials(holds: TrialHolds) -> Callable[[Subject], bool]:
    """A claim about every trial."""

    def all_hold(subject: Subject) -> bool:
        search = search_of(subject)
        return all(holds(search, trial) for trial in search.raw.trials)

    return all_hold
