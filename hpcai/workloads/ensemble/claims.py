"""Claims about `[ensemble]`: dataset, work, curves, members and ensemble."""

from collections.abc import Callable
from math import comb

from hpcai.claims.all_reduce_claims import ALL_REDUCE
from hpcai.claims.audit_claims import AUDITS
from hpcai.claims.checkpoint_claims import CHECKPOINTS
from hpcai.claims.curve_claims import CURVE, counted, reached_claims
from hpcai.claims.delivered_claims import DELIVERED, RECOUNTED
from hpcai.claims.energy_claims import ENERGY, THROUGHPUT
from hpcai.claims.exchange_claims import EXCHANGE
from hpcai.claims.image_data_claims import IMAGE_DATA, image_bytes, image_data, is_packed
from hpcai.claims.kernel_choice_claims import KERNEL_CHOICE
from hpcai.claims.loading_claims import loading_claims, trained, unused
from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.pipeline_claims import PIPELINED
from hpcai.claims.preflight_claims import PRECISION, PREPARATION, STAGE, kernels_claims, network_claims
from hpcai.claims.processor_claims import processor_claims
from hpcai.claims.stopped_claims import stopped_curve, stopped_work
from hpcai.claims.telemetry_claims import ROW_TELEMETRY
from hpcai.claims.training_claims import BAGS, EXECUTION, ONE_MODEL, RANKS, SAMPLES_IN_MEMORY, WORK
from hpcai.inputfile import Case
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.ensemble.record import EnsembleRaw
from hpcai.workloads.ensemble.recount_claims import RECOUNTS

LABEL = 8  # bytes of a class number
PACKED_SAMPLE = 2 * LABEL + 4  # bytes of its class, of all and by shard, and of its checksum


def _of_raw(holds: Callable[[Case, EnsembleRaw], bool]) -> Callable[[Subject], bool]:
    return lambda subject: holds(subject.case, subject.entry.raw)


def _agreeing_pairs(case: Case, raw: EnsembleRaw) -> bool:
    """Two models agree on at most all samples minus the difference of their correct samples."""
    spread = (case.groups - 1) * (raw.members.max - raw.members.min)
    return raw.ensemble.agreeing_pairs <= comb(case.groups, 2) * raw.dataset.validation_samples - spread


def _sum(case: Case, raw: EnsembleRaw) -> bool:
    members, others = raw.members, case.groups - 1
    return bool(others * members.min + members.max <= members.sum <= members.min + others * members.max)


def _together(case: Case, raw: EnsembleRaw) -> bool:
    """Two evaluations of the same samples: softmax outputs can tie where the logits do not, on few samples."""
    near = 1 + raw.dataset.validation_samples // 1000
    return case.groups > 1 or abs(raw.ensemble.correct - raw.curve[-1].correct) <= near


def _best(raw: EnsembleRaw) -> int:
    return max(entry.correct for entry in raw.curve)


def _quality_of_best(subject: Subject) -> float:
    raw: EnsembleRaw = subject.entry.raw
    return raw.members.best / raw.dataset.validation_samples


MODELS = (
    Claim(
        "curve: correct <= validation_samples",
        _of_raw(lambda case, raw: _best(raw) <= raw.dataset.validation_samples),
        changed("raw.curve.0.correct", 10**6),
    ),
    Claim(
        "correct <= validation_samples",
        _of_raw(lambda case, raw: raw.ensemble.correct <= raw.dataset.validation_samples),
        changed("raw.ensemble.correct", 10**6),
    ),
    Claim(
        "agreeing_pairs <= pairs of models - their spread",
        _of_raw(_agreeing_pairs),
        changed("raw.ensemble.agreeing_pairs", 1999),
    ),
    Claim(
        "bag_correct <= bag_evaluated",
        _of_raw(lambda case, raw: raw.ensemble.bag_correct <= raw.ensemble.bag_evaluated),
        changed("raw.ensemble.bag_correct", 199),
    ),
    Claim(
        "members.min <= the first model's <= max",
        _of_raw(lambda case, raw: raw.members.min <= raw.curve[-1].correct <= raw.members.max),
        changed("raw.curve.1.correct", 1),
    ),
    Claim(
        "members.best >= max",
        _of_raw(lambda case, raw: raw.members.best >= max(_best(raw), raw.members.max)),
        changed("raw.members.best", 1),
    ),
    Claim(
        "members.best <= validation_samples",
        _of_raw(lambda case, raw: raw.members.best <= raw.dataset.validation_samples),
        changed("raw.members.best", 10**6),
    ),
    Claim(
        "members.sum: between min and max of so many models",
        _of_raw(_sum),
        changed("raw.members.sum", 10**6),
    ),
    Claim(
        "one model: its best is the curve's",
        _of_raw(lambda case, raw: case.groups > 1 or raw.members.best == _best(raw)),
        changed("raw.members.best", 400),
        ONE_MODEL,
    ),
    Claim("one model: the ensemble is the model", _of_raw(_together), changed("raw.ensemble.correct", 400), ONE_MODEL),
)


def _image(subject: Subject) -> bool:
    data = subject.entry.memory.data
    return bool(data and data.image_bytes == image_bytes(subject))


def _whole(subject: Subject) -> bool:
    """In-memory datasets hold all samples with labels, twice if staged; other datasets hold none.

    Packed images hold labels and checksums in memory; a limited dataset those of all images it was chosen from.
    """
    case, data, used = subject.case, subject.entry.raw.dataset, subject.entry.memory.data
    if used is None:
        return False
    samples, copies = data.training_samples + data.validation_samples, 1 if case.stage == "none" else 2
    if is_packed(case):
        whole = copies * PACKED_SAMPLE * samples
        return used.data_bytes >= whole if case.samples else used.data_bytes == whole
    return used.data_bytes in (0, copies * samples * (used.image_bytes + LABEL))


DATA_IN_MEMORY = (
    SAMPLES_IN_MEMORY,
    Claim("memory.data: image_bytes of the dataset's shape", _image, changed("memory.data.image_bytes", 9)),
    Claim("memory.data: data_bytes of whole samples", _whole, changed("memory.data.data_bytes", 9)),
)
CLAIMS: Claims = (
    IMAGE_DATA,
    (
        *WORK,
        *AUDITS,
        *RANKS,
        *ALL_REDUCE,
        *EXCHANGE,
        *PIPELINED,
        *BAGS,
        *DELIVERED,
        *(RECOUNTED, *RECOUNTS),
        *CHECKPOINTS,
        *CURVE,
        *MODELS,
        *reached_claims(_quality_of_best),
        *STAGE,
        *kernels_claims(PREPARATION, classifies=True),
        *network_claims(PREPARATION),
        *KERNEL_CHOICE,
        *PRECISION,
        *processor_claims(PREPARATION),
        *EXECUTION,
        *MEMORY,
        *DATA_IN_MEMORY,
        *loading_claims(trained, unused, image_bytes),
        *ROW_TELEMETRY,
        *ENERGY,
        *THROUGHPUT,
    ),
)
STOPPED_CLAIMS: Claims = (
    image_data(""),
    (
        *stopped_work(),
        *counted(""),
        *stopped_curve(),
        Claim(
            "curve: correct <= validation_samples",
            lambda subject: all(
                entry.correct <= subject.entry.dataset.validation_samples for entry in subject.entry.curve
            ),
            changed("curve.0.correct", 10**6),
        ),
    ),
)
