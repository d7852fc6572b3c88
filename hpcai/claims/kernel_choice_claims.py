"""Claims about KERNELS auto: all layers of the network were timed, and the choice follows from the times."""

from collections import Counter
from collections.abc import Mapping

from hpcai.claims.training_claims import of_raw
from hpcai.inputfile import Case
from hpcai.networks.execution_plan import batch_norm_site, execution_plan, fused_groups, sequence_site
from hpcai.networks.graph import Graph
from hpcai.networks.layers import BatchNorm
from hpcai.networks.sequences import CausalAttention, RmsNorm
from hpcai.networks.tensor_parallel import tensor_part
from hpcai.opcount.products import layers_of
from hpcai.record.preflight import Backward, KernelChoice, WholeStep
from hpcai.record.training import TrainingRaw
from hpcai.results import kernel_choice as rule
from hpcai.results.alterations import changed, removed
from hpcai.results.claim import Claim
from hpcai.results.row import graph_of

CHOSEN = "auto"  # the example


def _chosen(case: Case, raw: TrainingRaw) -> bool:
    """A choice and its phase: both or none."""
    choice, phase = raw.preparation.kernel_choice, raw.phases.kernel_choice
    return (choice is not None) == (phase is not None) == (case.kernels == rule.AUTO)


def _products(case: Case, raw: TrainingRaw) -> bool:
    choice = raw.preparation.kernel_choice
    if choice is None:
        return True
    found = {
        (product.kernel, product.shape, product.backward.input_gradient is not None): product.layers
        for product in choice.products
    }
    return found == layers_of(_executed(case, raw), case.replica_batch) and len(found) == len(choice.products)


def _norms(case: Case, raw: TrainingRaw) -> bool:
    choice = raw.preparation.kernel_choice
    if choice is None:
        return True
    found = {norm.shape: norm.layers for norm in choice.normalisations}
    return found.items() <= one_kernel_sites(_executed(case, raw), case.replica_batch).items()


def _executed(case: Case, raw: TrainingRaw) -> Graph:
    """The layers of the first rank; models with stages have no such choice."""
    return tensor_part(graph_of(case, raw.dataset), 0, case.split.shards).graph


def one_kernel_sites(graph: Graph, batch: int) -> Mapping[str, int]:
    """Number of batch norms of a network by shape and fused operations, and of RMS norms and attentions by shape."""
    found: Counter[str] = Counter()
    for group in fused_groups(execution_plan(graph)):
        op, size = group[0].layer.op, (batch, *graph.shapes[group[0].layer.inputs[0]])
        if isinstance(op, BatchNorm):
            found[batch_norm_site(group, size)] += 1
        elif isinstance(op, RmsNorm | CausalAttention):
            found[sequence_site(op, size)] += 1
    return found


def _timings(case: Case, raw: TrainingRaw) -> bool:
    choice = raw.preparation.kernel_choice
    return choice is None or (
        all(
            _whole(product.backward) and rule.chosen(product.forward, product.backward) == product.custom
            for product in choice.products
        )
        and all(rule.normalised(norm.vendor, norm.custom) == norm.chosen for norm in choice.normalisations)
    )


def _whole(backward: Backward) -> bool:
    """Whether a pass with one custom gradient was timed with both gradients, or with none if there is only one."""
    return (backward.input_gradient is None) == (backward.weight_gradient is None)


def _step(case: Case, raw: TrainingRaw) -> bool:
    """In older results only where something was chosen."""
    choice = raw.preparation.kernel_choice
    return choice is None or (not _some(choice) if choice.whole is None else _is_complete(choice.whole, _some(choice)))


def _is_complete(whole: WholeStep, chosen: bool) -> bool:
    return chosen or whole.custom_step is not None


def _some(choice: KernelChoice) -> bool:
    return any(product.custom for product in choice.products) or any(norm.chosen for norm in choice.normalisations)


KERNEL_CHOICE = (
    Claim(
        "kernel_choice if, and only if, KERNELS is auto",
        of_raw(_chosen),
        changed("raw.phases.kernel_choice", 1.0),
    ),
    Claim(
        "kernel_choice: the products of the network",
        of_raw(_products),
        removed("raw.preparation.kernel_choice.products.0"),
        CHOSEN,
    ),
    Claim(
        "kernel_choice: norms and attention of the network",
        of_raw(_norms),
        changed("raw.preparation.kernel_choice.normalisations.0.layers", 99),
        CHOSEN,
    ),
    Claim(
        "kernel_choice: as the timings say",
        of_raw(_timings),
        changed("raw.preparation.kernel_choice.products.0.forward.custom", 1e3),
        CHOSEN,
    ),
    Claim(
        "kernel_choice: a whole step where something is custom",
        of_raw(_step),
        changed("raw.preparation.kernel_choice.whole", None),
        CHOSEN,
    ),
)
