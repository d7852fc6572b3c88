"""What the summation of gradients costs: bytes that a rank sends in a step, compression, packing."""

from hpcai.formulas.roofline import moved_in_all_reduce
from hpcai.gradients.reductions import REDUCTIONS
from hpcai.gradients.wires import WIRES
from hpcai.inputfile import Case
from hpcai.opcount.stages import parameters_of_a_rank
from hpcai.record.all_reduce import AllReduce, GradientCost, SentGradients
from hpcai.record.training import TrainingRaw
from hpcai.results.row import graph_of

FP32 = 4  # bytes of an element


def sent_in_a_step(case: Case, raw: TrainingRaw) -> float:
    """Bytes that a rank sent in a step, as counted; of a result without counts those of a flat all-reduce."""
    if raw.sent is not None:
        return sum(raw.sent.bytes.values())
    return moved_in_all_reduce(WIRES[case.wire].nbytes * gradients(case, raw), case.split.replicas)


def sent_by_all(sent: SentGradients | None, steps: int, degree: int) -> float | None:
    """Bytes that all ranks sent for gradients; None where none had to.

    steps: of all models. degree: ranks of a model.
    """
    return None if sent is None else sum(sent.bytes.values()) * steps * degree


def gradients(case: Case, raw: TrainingRaw) -> float:
    """Number of gradients of a step that a rank sums, on average over the ranks of a replica."""
    return parameters_of_a_rank(graph_of(case, raw.dataset), case.cut)


def needed_bytes(found: AllReduce, elements: float, element: int) -> dict[str, float]:
    """Bytes by link that a rank must send to sum gradients of `element` bytes on the wire, without padding.

    A link that is not recorded counts as one of one rank; a claim finds that.
    """
    reduction = REDUCTIONS[found.algorithm]()
    sizes = {name: found.sizes.get(name, 1) for name in reduction.links}
    return {str(name): nbytes for name, nbytes in reduction.bytes_sent(elements, sizes, element).items()}


def gradient_cost(case: Case, raw: TrainingRaw) -> GradientCost | None:
    """The cost; None without summation."""
    if raw.all_reduce is None or raw.sent is None:
        return None
    sent = sent_in_a_step(case, raw)
    in_fp32 = sum(needed_bytes(raw.all_reduce, gradients(case, raw), FP32).values())
    return GradientCost(
        sent=sent, compression=in_fp32 / sent if sent else None, packing=raw.sent.packing / raw.phases.training
    )
