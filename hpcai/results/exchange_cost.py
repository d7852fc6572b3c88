"""What the exchange of channels costs a rank of a tensor-parallel model, beside what its layers need by formula."""

from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.opcount.exchange import exchanged_values
from hpcai.record.exchange import ExchangeCost
from hpcai.record.training import TrainingRaw
from hpcai.results.row import graph_of


def channel_bytes(case: Case, graph: Graph, samples: int) -> float:
    """Bytes that a rank has to send for so many training samples of all models, on average over the ranks."""
    values = exchanged_values(graph, case.cut)
    return values * PRECISIONS[case.precision].activation_bytes * samples / (case.groups * case.split.replicas)


def needed_in_training(case: Case, raw: TrainingRaw, samples: int) -> float:
    """The same of the network that a result is of."""
    return channel_bytes(case, graph_of(case, raw.dataset), samples)


def exchange_cost(case: Case, raw: TrainingRaw) -> ExchangeCost | None:
    """The cost; None where models are not sharded."""
    if raw.exchanged is None:
        return None
    steps = raw.work.steps / case.groups
    samples = raw.work.samples + raw.work.skipped_samples
    return ExchangeCost(
        sent=raw.exchanged.bytes / steps,
        needed=needed_in_training(case, raw, samples) / steps,
        seconds=raw.exchanged.seconds / raw.phases.training,
    )


def exchanged_in_a_step(case: Case, raw: TrainingRaw) -> float:
    """Bytes that a rank sent in a step; 0 where models are not sharded."""
    cost = exchange_cost(case, raw)
    return cost.sent if cost else 0.0
