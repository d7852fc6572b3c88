"""Claims about `[language]`: dataset, work, curves, members and ensemble."""

from collections.abc import Callable
from math import comb, isclose

from hpcai.claims.all_reduce_claims import ALL_REDUCE
from hpcai.claims.audit_claims import AUDITS
from hpcai.claims.checkpoint_claims import CHECKPOINTS
from hpcai.claims.curve_claims import CURVE, counted, reached_claims
from hpcai.claims.dataset_claims import dataset_of
from hpcai.claims.delivered_claims import DELIVERED, NOT_RECOUNTED
from hpcai.claims.energy_claims import ENERGY, THROUGHPUT
from hpcai.claims.exchange_claims import EXCHANGE
from hpcai.claims.kernel_choice_claims import KERNEL_CHOICE
from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.pipeline_claims import PIPELINED
from hpcai.claims.preflight_claims import PRECISION, PREPARATION, STAGE, kernels_claims
from hpcai.claims.processor_claims import processor_claims
from hpcai.claims.stopped_claims import stopped_curve, stopped_work
from hpcai.claims.telemetry_claims import ROW_TELEMETRY
from hpcai.claims.training_claims import BAGS, EXECUTION, ONE_MODEL, RANKS, WORK
from hpcai.data.dataset_paths import GENERATED
from hpcai.inputfile import Case
from hpcai.record.dataset import Dataset
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Claims, Subject
from hpcai.workloads.language.checks import below
from hpcai.workloads.language.data_claims import FILES, LOADING, TEXT_DATA, predicted, text_data
from hpcai.workloads.language.record import Evaluated, LanguageRaw, TextValidation

ROUNDING = 1e-9  # of sums in another order, as a share
NEAR = 1e-3  # difference of two passes over the same bytes, by rounding, in bits per byte


def _of_raw(holds: Callable[[Case, LanguageRaw], bool]) -> Callable[[Subject], bool]:
    return lambda subject: holds(subject.case, subject.entry.raw)


def _sound(case: Case, dataset: Dataset, found: Evaluated | TextValidation, whole: int) -> bool:
    """All bytes are predicted; differences are known of generated sequences, and are from the source's entropy."""
    if found.predicted != whole:
        return False
    if found.differences is None or found.difference_squares is None or dataset.ceiling is None:
        return (found.differences is found.difference_squares is None) and case.dataset != GENERATED
    entropy, least = found.bits - found.differences, found.differences**2 / dataset.validation_samples
    exact = isclose(entropy, dataset.ceiling * whole, rel_tol=ROUNDING)
    return exact and found.difference_squares >= least * (1 - ROUNDING)


def _curve(case: Case, raw: LanguageRaw) -> bool:
    return all(_sound(case, raw.dataset, entry, predicted(case, raw.dataset)) for entry in raw.curve)


def _validation(case: Case, raw: LanguageRaw) -> bool:
    found, whole = raw.ensemble.validation, predicted(case, raw.dataset)
    return found.sequences == raw.dataset.validation_samples and _sound(case, raw.dataset, found, whole)


def _pairs(case: Case, raw: LanguageRaw) -> bool:
    parts = filter(None, [raw.ensemble.validation, raw.ensemble.test])
    return all(found.agreeing_pairs <= comb(case.groups, 2) * found.predicted for found in parts)


def _tested(case: Case, raw: LanguageRaw) -> bool:
    """The test bytes are as many as the validation bytes, but for one, cut in the same way."""
    found, places = raw.ensemble.test, raw.dataset.shape[2]
    if found is None or case.dataset == GENERATED:
        return found is None and case.dataset == GENERATED
    near = abs(found.sequences - raw.dataset.validation_samples) <= 1
    return near and found.predicted == places + (found.sequences - 1) * (places // 2)


def _bag(case: Case, raw: LanguageRaw) -> bool:
    found = raw.ensemble
    return found.bag_predicted == found.bag_evaluated * raw.dataset.shape[2] and (found.bag_bits > 0) == (
        found.bag_predicted > 0
    )


TOGETHER = (
    Claim(
        "curve: all bytes predicted, the source's entropy in between",
        _of_raw(_curve),
        changed("raw.curve.0.bits", 1.0),
    ),
    Claim(
        "ensemble: all bytes predicted, the source's entropy in between",
        _of_raw(_validation),
        changed("raw.ensemble.validation.predicted", 1),
    ),
    Claim(
        "agreeing_pairs <= pairs of models x bytes",
        _of_raw(_pairs),
        changed("raw.ensemble.validation.agreeing_pairs", 10**9),
    ),
    Claim(
        "ensemble.test: of files only, all its bytes predicted",
        _of_raw(_tested),
        changed("raw.ensemble.test", None),
        FILES,
    ),
    Claim("bag_predicted: of bag_evaluated sequences", _of_raw(_bag), changed("raw.ensemble.bag_predicted", 1)),
)


def _qualities(raw: LanguageRaw) -> list[float]:
    """Of the first model's curve."""
    return [entry.bits / entry.predicted for entry in raw.curve]


def _sum(case: Case, raw: LanguageRaw) -> bool:
    members, others = raw.members, case.groups - 1
    least, most = others * members.min + members.max, members.min + others * members.max
    return least * (1 - ROUNDING) <= members.sum <= most * (1 + ROUNDING)


def _convex(case: Case, raw: LanguageRaw) -> bool:
    """The mean of probabilities is at least their geometric mean (Jensen), so the ensemble needs fewer bits."""
    found = raw.ensemble.validation
    return found.bits / found.predicted <= raw.members.sum / case.groups + NEAR


def _is_the_model(case: Case, raw: LanguageRaw) -> bool:
    found = raw.ensemble.validation
    return case.groups > 1 or isclose(found.bits / found.predicted, _qualities(raw)[-1], abs_tol=NEAR)


def _below(case: Case, raw: LanguageRaw) -> bool:
    """At least that of the first model; known of generated sequences only."""
    found = [below(entry, raw.dataset.validation_samples) for entry in raw.curve]
    if raw.below is None:
        return case.dataset != GENERATED
    return raw.below >= max((each or 0.0 for each in found), default=0.0) * (1 - ROUNDING)


MODELS = (
    Claim(
        "members.min <= the first model's <= max",
        _of_raw(lambda case, raw: raw.members.min <= _qualities(raw)[-1] <= raw.members.max),
        changed("raw.members.max", 0.0),
    ),
    Claim(
        "members.best <= min, and the first model's",
        _of_raw(lambda case, raw: raw.members.best <= min(*_qualities(raw), raw.members.min)),
        changed("raw.members.best", 9.0),
    ),
    Claim("members.sum: between min and max of so many models", _of_raw(_sum), changed("raw.members.sum", 99.0)),
    Claim(
        "one model: its best is the curve's",
        _of_raw(lambda case, raw: case.groups > 1 or raw.members.best == min(_qualities(raw))),
        changed("raw.members.best", 0.5),
        ONE_MODEL,
    ),
    Claim(
        "the ensemble's bits <= the mean of the models' bits",
        _of_raw(_convex),
        changed("raw.members", {"sum": 0.02, "min": 0.01, "max": 0.01, "best": 0.01}),
    ),
    Claim(
        "one model: the ensemble is the model",
        _of_raw(_is_the_model),
        changed("raw.ensemble.validation.bits", 1.0),
        ONE_MODEL,
    ),
    Claim("below: at least the first model's", _of_raw(_below), changed("raw.below", None)),
)
CLAIMS: Claims = (
    TEXT_DATA,
    (
        *WORK,
        *AUDITS,
        *RANKS,
        *ALL_REDUCE,
        *BAGS,
        *DELIVERED,
        NOT_RECOUNTED,
        *CHECKPOINTS,
        *CURVE,
        *TOGETHER,
        *MODELS,
        *reached_claims(lambda subject: float(subject.entry.raw.members.best)),
        *STAGE,
        *kernels_claims(PREPARATION, classifies=True),
        *KERNEL_CHOICE,
        *PRECISION,
        *processor_claims(PREPARATION),
        *EXECUTION,
        *EXCHANGE,
        *PIPELINED,
        *MEMORY,
        *LOADING,
        *ROW_TELEMETRY,
        *ENERGY,
        *THROUGHPUT,
    ),
)
STOPPED_CLAIMS: Claims = (
    text_data(""),
    (
        *stopped_work(),
        *counted(""),
        *stopped_curve(),
        Claim(
            "curve: all bytes predicted, the source's entropy in between",
            lambda subject: all(
                _sound(subject.case, dataset_of(subject), entry, predicted(subject.case, dataset_of(subject)))
                for entry in subject.entry.curve
            ),
            changed("curve.0.bits", 1.0),
        ),
    ),
)
