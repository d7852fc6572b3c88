"""Claims about what is kept of an ensemble's predictions, by which its figures are counted anew."""

from hpcai.frozen.samples import TRAINING, VALIDATION
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject
from hpcai.workloads.ensemble.checks import ensemble_of


def _there(subject: Subject) -> bool:
    """Older results have none."""
    raw = subject.entry.raw
    return (raw.ensemble.recount is None) == (raw.delivered is None)


def _counted(subject: Subject) -> bool:
    found = subject.entry.raw.delivered
    return found is None or found.recounted_validations is not None


def _kept(subject: Subject) -> bool:
    raw = subject.entry.raw
    found = raw.ensemble.recount
    if found is None:
        return True
    of, entropy = ensemble_of(subject.case, raw.dataset), int(found.entropy, 16)
    validation, training = (of.sampled(split, entropy) for split in (VALIDATION, TRAINING))
    sizes = len(validation.samples), len(training.samples), len(validation.voted) + len(training.voted)
    return bool((found.samples, found.bag_samples, found.voted) == sizes)


RECOUNTS = (
    Claim("ensemble.recount is there", _there, changed("raw.ensemble.recount", None)),
    Claim("delivered.recounted_validations is there", _counted, changed("raw.delivered.recounted_validations", None)),
    Claim("ensemble.recount: of the samples drawn", _kept, changed("raw.ensemble.recount.voted", 10**6)),
)
