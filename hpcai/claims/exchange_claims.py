"""Claims about the channels that the ranks of a tensor-parallel model exchange."""

from math import isclose

from hpcai.claims.shards import shards_of, trained
from hpcai.inputfile.split import TENSOR, split_of
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Subject
from hpcai.results.exchange_cost import needed_in_training

FORGED = {"bytes": 4096.0, "seconds": 1e-3}


def _there(subject: Subject) -> bool:
    return (subject.entry.raw.exchanged is None) == (subject.case.split.shards == 1)


def _needed(subject: Subject) -> bool:
    """Every training step of every sample, skipped ones included, has exchanged what its layers need."""
    raw, case = subject.entry.raw, subject.case
    if raw.exchanged is None:
        return True
    samples = trained(case, shards_of(case, raw.dataset.training_samples))
    return isclose(raw.exchanged.bytes, needed_in_training(case, raw, samples), rel_tol=1e-9)


def _within(subject: Subject) -> bool:
    raw = subject.entry.raw
    return raw.exchanged is None or raw.exchanged.seconds <= raw.phases.training


def _evaluated(subject: Subject) -> bool:
    """Older results have none of models that are not divided."""
    return subject.entry.raw.evaluation_deviation is not None or split_of(subject.entry.settings).parts == 1


EXCHANGE = (
    Claim(
        "evaluation_deviation of divided models",
        _evaluated,
        together(
            changed("settings.PARALLEL", TENSOR),
            changed("settings.DEGREE", 2),
            changed("raw.evaluation_deviation", None),
        ),
    ),
    Claim("exchanged if, and only if, models are sharded", _there, changed("raw.exchanged", FORGED)),
    Claim(
        "exchanged.bytes: what the layers need",
        _needed,
        together(changed("settings.PARALLEL", TENSOR), changed("raw.exchanged", FORGED)),
    ),
    Claim(
        "exchanged.seconds: within the training",
        _within,
        changed("raw.exchanged", {**FORGED, "seconds": 1e9}),
    ),
)
