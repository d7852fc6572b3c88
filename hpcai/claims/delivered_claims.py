"""Claims about what arrived at the networks: how often it was compared."""

from hpcai.claims.image_data_claims import is_packed
from hpcai.claims.shards import evaluated
from hpcai.inputfile import Case
from hpcai.record.content import ONE_IN, Delivered
from hpcai.record.training import TrainingRaw
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject


def _found(subject: Subject) -> Delivered | None:
    found: Delivered | None = subject.entry.raw.delivered
    return found


def _samples(subject: Subject) -> bool:
    """At least one of each epoch and validation of each model, and one of the ensemble's evaluation by each."""
    case, found = subject.case, _found(subject)
    return found is None or found.samples >= case.groups * (case.epochs + len(evaluated(case)) + 1)


def _validations(subject: Subject) -> bool:
    case, found = subject.case, _found(subject)
    return found is None or found.validations == _passes(case, subject.entry.raw)


def _passes(case: Case, raw: TrainingRaw) -> int:
    return raw.work.validation_passes + case.groups


def _recipes(subject: Subject) -> bool:
    found = _found(subject)
    return found is None or found.recipe_steps == subject.entry.raw.replay.steps


def _positions(subject: Subject) -> bool:
    found = _found(subject)
    return found is None or found.positions >= max(found.recipe_steps, found.misplaced)


def _recounted(subject: Subject) -> bool:
    """Older results have no such count."""
    found, work = _found(subject), subject.entry.raw.work
    if found is None or found.recounted_validations is None:
        return True
    return found.recounted_validations == getattr(work, "validation_passes", found.validations)


def _uncounted(subject: Subject) -> bool:
    found = _found(subject)
    return found is None or not (found.recounted_validations or found.miscounted_validations)


def _shared(subject: Subject) -> bool:
    found, samples = _found(subject), subject.entry.raw.dataset.validation_samples
    allowed = samples // ONE_IN if is_packed(subject.case) else 0
    return found is None or ((found.data.shared or 0) <= samples and found.data.shared_allowed == allowed)


OF_STEPS = (
    Claim(
        "delivered: the recipe of each replayed step",
        _recipes,
        changed("raw.delivered.recipe_steps", 10**6),
    ),
    Claim(
        "delivered: positions of each replayed step",
        _positions,
        changed("raw.delivered.positions", 0),
    ),
    Claim(
        "delivered: shared samples are validation samples, allowed ones 1 in a thousand of packed images",
        _shared,
        changed("raw.delivered.data.shared_allowed", 10**6),
    ),
)
RECOUNTED = Claim(
    "delivered: the correct samples of each validation are counted anew",
    _recounted,
    changed("raw.delivered.recounted_validations", 10**6),
)
NOT_RECOUNTED = Claim(
    "delivered: correct samples are counted anew of classifiers only",
    _uncounted,
    changed("raw.delivered.recounted_validations", 1),
)
DELIVERED = (
    *OF_STEPS,
    Claim(
        "delivered: samples of each epoch and evaluation of each model",
        _samples,
        changed("raw.delivered.samples", 1),
    ),
    Claim(
        "delivered: the validations, and the ensemble's by each model",
        _validations,
        changed("raw.delivered.validations", 1),
    ),
)
