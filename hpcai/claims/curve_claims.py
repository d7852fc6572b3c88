"""Claims about validation curves and the models that reached the target."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from hpcai.claims.dataset_claims import dataset_of
from hpcai.claims.shards import evaluated
from hpcai.claims.training_claims import ONE_MODEL, ROUNDING
from hpcai.formulas.sample_fingerprint import expected_fingerprint
from hpcai.record.dataset import Validation
from hpcai.record.training import Models
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Subject
from hpcai.results.reached import first_reaching
from hpcai.workloads.registry import quality_of
from hpcai.workloads.workload import Quality

Curve = Sequence[Validation]


def curve_of(subject: Subject) -> Curve:
    """The first model's validations, of a complete test or of one broken off."""
    curve: Curve = getattr(subject.entry, "raw", subject.entry).curve
    return curve


def counted(where: str = "raw.") -> tuple[Claim, ...]:
    """Each validation evaluated every sample once; `where` is the path of the curve."""
    return (
        Claim(
            "curve: counted = validation_samples",
            lambda subject: all(
                entry.counted == dataset_of(subject).validation_samples for entry in curve_of(subject)
            ),
            changed(f"{where}curve.0.counted", 1),
        ),
        Claim(
            "curve: the fingerprint of all samples",
            _fingerprints,
            changed(f"{where}curve.0.fingerprint", 1),
        ),
    )


def _fingerprints(subject: Subject) -> bool:
    curve = curve_of(subject)
    expected = expected_fingerprint(dataset_of(subject).validation_samples) if curve else 0
    return all(entry.fingerprint == expected for entry in curve)


def _ascends(subject: Subject) -> bool:
    seconds = [entry.seconds for entry in curve_of(subject)]
    return all(earlier < later for earlier, later in pairwise(seconds))


def _within(subject: Subject) -> bool:
    """Of several models the curve is that of the first, and the phases are of the slowest rank."""
    curve, case, phases = curve_of(subject), subject.case, subject.entry.raw.phases
    if not curve:
        return True
    last, whole = curve[-1], case.groups == 1 and curve[-1].epoch == case.epochs
    least, most = phases.training if whole else 0.0, phases.training + phases.validation
    return least * (1 - ROUNDING) <= last.seconds <= most * (1 + ROUNDING)


CURVE = (
    *counted(),
    Claim(
        "curve: epochs that EVALUATE asks for",
        lambda subject: [entry.epoch for entry in curve_of(subject)] == evaluated(subject.case),
        changed("raw.curve.0.epoch", 9),
    ),
    Claim(
        "curve: no loss is missing",
        lambda subject: all(entry.loss is not None for entry in curve_of(subject)),
        changed("raw.curve.0.loss", None),
    ),
    Claim("curve: each entry is later than the one before", _ascends, changed("raw.curve.*.seconds", 1.0)),
    Claim(
        "curve: the last entry within training and validation, and of one model after its training",
        _within,
        changed("raw.curve.*.seconds", 1e9),
    ),
)


def reached_claims(best: Callable[[Subject], float]) -> tuple[Claim, ...]:
    """Time and epochs to quality are those of the models that reached the target; `best`: best quality of any model."""

    def some(subject: Subject) -> bool:
        return (_models(subject).reached > 0) == _quality(subject).reached(best(subject), subject.entry.raw.target)

    return (
        Claim(
            "models.reached <= GROUPS",
            _number,
            changed("raw.models.reached", 3),
        ),
        Claim(
            "models.reached > 0 if, and only if, the best reached the target",
            some,
            changed("raw.models.reached", 0),
        ),
        Claim(
            "models.reached_epochs_max was evaluated",
            lambda subject: _models(subject).reached_epochs_max in (0, *evaluated(subject.case)),
            changed("raw.models.reached_epochs_max", 9),
        ),
        Claim(
            "models.reached_epochs: max <= sum <= models x max",
            _epochs,
            changed("raw.models.reached_epochs_sum", 99),
        ),
        Claim(
            "models.reached_epochs: the first model's <= max",
            _first_epoch,
            changed("raw.models.reached_epochs_max", 0),
        ),
        Claim(
            "models.reached = 0: no time to quality",
            _none,
            together(changed("raw.models.reached", 0), changed("raw.models.reached_seconds_sum", 1.0)),
        ),
        Claim(
            "one model: reached when the curve says",
            _one_model,
            changed("raw.models.reached_seconds_max", 1e6),
            ONE_MODEL,
        ),
    )


def _quality(subject: Subject) -> Quality:
    return quality_of(subject.case.workload)


def _models(subject: Subject) -> Models:
    models: Models = subject.entry.raw.models
    return models


def _first(subject: Subject) -> tuple[float, int]:
    """Seconds and epochs until the first model reached the target; 0 if it did not."""
    samples = dataset_of(subject).validation_samples
    entry = first_reaching(_quality(subject), curve_of(subject), samples, subject.entry.raw.target)
    return (entry.seconds, entry.epoch) if entry else (0.0, 0)


def _number(subject: Subject) -> bool:
    first = int(_first(subject)[1] > 0)
    return first <= _models(subject).reached <= subject.case.groups - 1 + first


def _epochs(subject: Subject) -> bool:
    models = _models(subject)
    return models.reached_epochs_max <= models.reached_epochs_sum <= models.reached * models.reached_epochs_max


def _first_epoch(subject: Subject) -> bool:
    return _first(subject)[1] <= _models(subject).reached_epochs_max


def _none(subject: Subject) -> bool:
    models = _models(subject)
    return models.reached > 0 or models.reached_seconds_sum == models.reached_seconds_max == 0


def _one_model(subject: Subject) -> bool:
    models = _models(subject)
    sums = (models.reached_seconds_sum, models.reached_epochs_sum)
    longest = (models.reached_seconds_max, models.reached_epochs_max)
    return subject.case.groups > 1 or _first(subject) == sums == longest
