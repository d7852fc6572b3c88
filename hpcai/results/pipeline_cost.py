"""What a pipeline costs its ranks: bubble and bytes, beside those expected by formula."""

from hpcai.formulas.pipeline import expected_bubble
from hpcai.formulas.precision import PRECISIONS
from hpcai.inputfile import Case
from hpcai.networks.graph import Graph
from hpcai.opcount.stages import operations_of, sent_values, tied_values
from hpcai.record.pipeline import PipelineCost
from hpcai.record.training import TrainingRaw
from hpcai.results.row import graph_of


def activation_bytes(case: Case, graph: Graph, samples: int) -> float:
    """Bytes that a rank has to send for so many training samples of all models, on average over the ranks."""
    values = sent_values(graph, case.cut) / case.cut.parts
    return values * PRECISIONS[case.precision].activation_bytes * samples / (case.groups * case.split.replicas)


def tied_bytes(case: Case, graph: Graph) -> float:
    """Bytes that a rank has to send in a step for gradients of tied weights, on average over the ranks."""
    return tied_values(graph, case.cut) / case.cut.parts * PRECISIONS[case.precision].weight_bytes


def crossing_bytes(case: Case, raw: TrainingRaw, samples: int) -> float:
    """All bytes that a rank had to send to other stages for so many training samples, of the result's network."""
    graph = graph_of(case, raw.dataset)
    return activation_bytes(case, graph, samples) + tied_bytes(case, graph) * raw.work.steps / case.groups


def stage_operations(case: Case, raw: TrainingRaw, samples: int) -> list[int]:
    """Operations of so many training samples by stage."""
    return [each * samples for each in operations_of(graph_of(case, raw.dataset), case.cut)]


def pipeline_cost(case: Case, raw: TrainingRaw) -> PipelineCost | None:
    """The cost; None without a pipeline."""
    found = raw.pipeline
    if found is None:
        return None
    steps, samples = raw.work.steps / case.groups, raw.work.samples + raw.work.skipped_samples
    return PipelineCost(
        bubble=sum(stage.waiting for stage in found.stages) / len(found.stages) / raw.phases.training,
        expected_bubble=expected_bubble(case.split.stages, case.chunks),
        sent=found.bytes / steps,
        needed=crossing_bytes(case, raw, samples) / steps,
    )


def sent_between_stages(case: Case, raw: TrainingRaw) -> float:
    """Bytes that a rank sent in a step; 0 without a pipeline."""
    cost = pipeline_cost(case, raw)
    return cost.sent if cost else 0.0
