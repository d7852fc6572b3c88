"""Claims about the summation of gradients: the path that input and backend allow, and the bytes that it must send."""

from math import prod

from hpcai.claims.training_claims import ONE_MODEL, of_raw
from hpcai.gradients.reductions import REDUCTIONS, algorithms
from hpcai.gradients.wires import WIRES
from hpcai.inputfile import Case
from hpcai.record.all_reduce import AllReduce
from hpcai.record.training import TrainingRaw
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject
from hpcai.results.gradient_cost import gradients, needed_bytes

PADDING = 40  # bytes for each bucket, rank and link: parts of equal sizes, aligned packets with a scale each
PATH = {"algorithm": "flat", "by": "gloo", "links": [{"link": "group", "ranks": 2}], "compared": []}
COMPARED = [
    {"algorithm": "flat", "by": by, "seconds": 1.0, "processor": processor}
    for by, processor in (("gloo", 1.0), ("mpi", 0.5))
]


def _path_allowed(subject: Subject) -> bool:
    found: AllReduce | None = subject.entry.raw.all_reduce
    if found is None:
        return True
    reduction = REDUCTIONS[found.algorithm]
    return (
        found.algorithm in algorithms(subject.case.allreduce)
        and [each.link for each in found.links] == [*reduction.links]
        and prod(found.sizes.values()) == subject.case.split.replicas
    )


def _backend_allowed(subject: Subject) -> bool:
    found: AllReduce | None = subject.entry.raw.all_reduce
    used = subject.entry.raw.backend
    return found is None or found.by == used or (found.by == "mpi" and used == "gloo")


def _cheapest(subject: Subject) -> bool:
    found: AllReduce | None = subject.entry.raw.all_reduce
    if found is None or not found.compared:
        return True
    used = [each.cost for each in found.compared if (each.algorithm, each.by) == (found.algorithm, found.by)]
    return len(found.compared) > 1 and used == [min(each.cost for each in found.compared)]


def _needed(case: Case, raw: TrainingRaw) -> bool:
    """Whether the bytes sent by each link are those that it needs, and where it sends parts, some padding more."""
    if raw.all_reduce is None or raw.sent is None:
        return raw.sent is None
    needed = needed_bytes(raw.all_reduce, gradients(case, raw), WIRES[case.wire].nbytes)
    divided = raw.all_reduce.algorithm != "flat" or not WIRES[case.wire].plain
    padding = PADDING * raw.execution.buckets * case.split.replicas * divided
    pairs = [(raw.sent.bytes.get(name, -1.0), nbytes) for name, nbytes in needed.items()]
    return [*raw.sent.bytes] == [*needed] and all(
        nbytes * (1 - 1e-9) <= sent <= nbytes * (1 + 1e-9) + padding for sent, nbytes in pairs
    )


def _packs(case: Case, raw: TrainingRaw) -> bool:
    return raw.sent is None or raw.sent.packing == 0 or not WIRES[case.wire].plain


PATHS = (
    Claim(
        "all_reduce if, and only if, DEGREE > 1",
        lambda subject: (subject.entry.raw.all_reduce is None) == (subject.case.split.replicas == 1),
        changed("raw.all_reduce", PATH),
    ),
)
USED = (
    Claim(
        "all_reduce: what ALLREDUCE allows, over DEGREE ranks",
        _path_allowed,
        changed("raw.all_reduce.algorithm", "torus"),
        ONE_MODEL,
    ),
    Claim(
        "all_reduce: by the training's backend, or by MPI in host memory",
        _backend_allowed,
        changed("raw.all_reduce.by", "nccl"),
        ONE_MODEL,
    ),
    Claim(
        "all_reduce: the path of least cost of those that were compared",
        _cheapest,
        changed("raw.all_reduce.compared", COMPARED),
        ONE_MODEL,
    ),
    Claim(
        "sent.bytes: what the links need, and padding", of_raw(_needed), changed("raw.sent.bytes.group", 1e9), ONE_MODEL
    ),
    Claim("sent.packing: none in fp32", of_raw(_packs), changed("raw.sent.packing", 0.5), ONE_MODEL),
)
ALL_REDUCE = (*PATHS, *USED)
