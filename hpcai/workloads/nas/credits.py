"""Operations of a search's trials: per sample in each network, credited, skipped and executed."""

from collections.abc import Sequence
from dataclasses import dataclass

from hpcai import opcount
from hpcai.formulas import aiperf
from hpcai.formulas.aiperf import Credit, Work
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import lineage
from hpcai.record.entry import Operations
from hpcai.record.trial import Trial
from hpcai.results.row import RULE, graph_of
from hpcai.workloads.nas.record import SearchMeasured


@dataclass(frozen=True)
class SampleOperations:
    """Operations of one sample in a trial's network: in training by rule `model`, both kinds by `aiperf`."""

    model: int
    aiperf: Work

    @classmethod
    def of(cls, graph: Graph) -> "SampleOperations":
        """The counts of a network."""
        return cls(opcount.count(graph, RULE).total, aiperf.work(graph))


def initial(case: Case, raw: SearchMeasured) -> Graph:
    """The network that the search began with."""
    return graph_of(case, raw.dataset)


def graphs(case: Case, raw: SearchMeasured) -> dict[int, Graph]:
    """The network of each trial, by its number."""
    return lineage(initial(case, raw), raw.trials)


def counted(case: Case, raw: SearchMeasured) -> dict[int, SampleOperations]:
    """Operations of a sample in each trial's network, by trial number; each distinct network is counted once.

    InputError where the morphisms of a trial do not fit its parent's network.
    """
    known: dict[Graph, SampleOperations] = {}
    found = graphs(case, raw)
    for graph in found.values():
        if graph not in known:
            known[graph] = SampleOperations.of(graph)
    return {number: known[graph] for number, graph in found.items()}


def credited(case: Case, raw: SearchMeasured) -> int:
    """Operations of the samples that were trained, by the headline rule; also of a search that was broken off."""
    each = counted(case, raw)
    return sum(each[trial.id].model * trial.samples for trial in raw.trials)


def operations(case: Case, raw: SearchMeasured, each: dict[int, SampleOperations]) -> Operations:
    """Operations by the headline rule: of a sample in the initial network, and over all trials."""
    return Operations(
        rule=RULE,
        per_sample=SampleOperations.of(initial(case, raw)).model,
        credited=sum(each[trial.id].model * trial.samples for trial in raw.trials),
        skipped=sum(each[trial.id].model * trial.skipped for trial in raw.trials),
        executed=raw.work.executed_operations,
    )


def credits_of(trials: Sequence[Trial], each: dict[int, SampleOperations]) -> list[Credit]:
    """The contributions of the trials to the score, in order of time."""
    found = [credit for trial in trials for credit in aiperf.credits(trial.curve, each[trial.id].aiperf)]
    return sorted(found, key=lambda credit: credit.seconds)
