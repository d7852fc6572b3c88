"""Claims about network and hyper-parameters of a trial, by the input and its parent."""

from collections.abc import Iterator

from hpcai.formulas import trial_schedule
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import KERNEL_SIZES, Kernel, Widen
from hpcai.record.trial import FAILED, Trial
from hpcai.search.neighbours import FACTORS, FARTHEST
from hpcai.workloads.nas.search_claims import replayed
from hpcai.workloads.nas.searched_trials import Search


def operation(search: Search, trial: Trial) -> bool:
    return trial.operation == (trial.morphisms[0].operation if trial.morphisms else "initial")


def unchanged(search: Search, trial: Trial) -> bool:
    inherited = bool(trial.morphisms) and search.case["INITIAL"] == "inherited"
    return trial.deviation == 0 or (trial.deviation > 0 and inherited)


def parent_of(search: Search, trial: Trial) -> Trial | None:
    """The parent of a trial that was suggested; None of others."""
    known = trial.parent is not None and not replayed(search.case)
    return search.trials.get(trial.parent or 0) if known else None


def parent_lives(search: Search, trial: Trial) -> bool:
    parent = parent_of(search, trial)
    return parent is None or parent.end not in FAILED


def parent_weights(search: Search, trial: Trial) -> bool:
    """Whether a trial began with the weights that its parent ended with; older results do not say."""
    parent = search.trials.get(trial.parent or 0)
    if parent is None or search.case["INITIAL"] != "inherited":
        return trial.parent_sha256 is None
    return trial.parent_sha256 == parent.weights_sha256


def parent_is_known(search: Search, trial: Trial) -> bool:
    """Whether REPLAY lets a trial use the result of its parent."""
    parent, case = parent_of(search, trial), search.case
    return parent is None or case["REPLAY"] != "rounds" or parent.round < trial.round - case["LAG"]


def batch(search: Search, trial: Trial) -> bool:
    usual = search.case.batch
    least = max(2, usual // 2)  # where memory is short, also in warm-up rounds
    sizes = {least, usual} if trial_schedule.warms_up(trial.round) else {least, usual, 2 * usual}
    return replayed(search.case) or trial.hyperparameters.batch in sizes


def kernel(search: Search, trial: Trial) -> bool:
    sizes = KERNEL_SIZES[:1] if trial_schedule.warms_up(trial.round) else KERNEL_SIZES
    return replayed(search.case) or trial.hyperparameters.kernel in sizes


def kernels(search: Search, trial: Trial) -> bool:
    """Whether all convolutions that morphisms added are as large as the trial's kernel size."""
    graph = search.graphs[trial.id]
    added = {layer.name for layer in graph.layers} - {layer.name for layer in search.initial.layers}
    sides = [side for name, side in convolutions(graph) if name in added and side in KERNEL_SIZES]
    smallest = min(sides, default=trial.hyperparameters.kernel)
    return replayed(search.case) or smallest >= trial.hyperparameters.kernel


def convolutions(graph: Graph) -> Iterator[tuple[str, int]]:
    return ((layer.name, layer.op.kernel[0]) for layer in graph.layers if isinstance(layer.op, Conv))


def free(search: Search, trial: Trial) -> bool:
    """Whether the limits of networks do not hold for a trial."""
    return replayed(search.case) or not trial.morphisms


def depth(search: Search, trial: Trial) -> bool:
    most, count = search.case["DEPTH"], len(list(convolutions(search.graphs[trial.id])))
    return free(search, trial) or most == 0 or count <= most


def parameters(search: Search, trial: Trial) -> bool:
    most, count = search.case["PARAMETERS"], sum(search.graphs[trial.id].parameters.values())
    return free(search, trial) or most == 0 or count <= most


def morphisms(search: Search, trial: Trial) -> bool:
    """Whether a trial has no more morphisms than a proposal, but for kernels of added convolutions."""
    if free(search, trial):
        return True
    graph = search.graphs[trial.id]
    added = sum(layer.name not in search.initial.shapes for layer in graph.layers if isinstance(layer.op, Conv))
    others = sum(not isinstance(each, Kernel) for each in trial.morphisms)
    return len(trial.morphisms) <= FARTHEST + added and others <= FARTHEST


def widens(search: Search, trial: Trial) -> bool:
    """Whether no morphism widens a layer further than a proposal does."""
    if free(search, trial):
        return True
    graph = search.graphs[trial.parent] if trial.parent is not None else search.initial
    for each in trial.morphisms:
        if isinstance(each, Widen):
            channels = graph.shapes[each.layer][0]
            if each.channels > max(channels + 1, int(max(FACTORS) * channels)):
                return False
        graph = morphed(graph, [each])
    return True
