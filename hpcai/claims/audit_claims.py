"""Claims about audited steps: they follow from the entropy that the result keeps, and their cost is bounded."""

from hpcai.claims.shards import shards_of
from hpcai.data.audit_draws import drawn_steps
from hpcai.formulas.audits import MOST
from hpcai.record.training import Audits, TrainingRaw
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Subject


def _raw(subject: Subject) -> TrainingRaw:
    raw: TrainingRaw = subject.entry.raw
    return raw


def _drawn(subject: Subject) -> bool:
    """Whether each epoch of the first model has the steps that one draw, or a few, from the entropy give."""
    raw, case = _raw(subject), subject.case
    if raw.replay.audits is None:
        return True
    steps = range(shards_of(case, raw.dataset.training_samples)[0].steps)
    found, first = raw.replay.audits, case.models[0]
    return all(_of_epoch(found, epoch) in _possible(found, first, steps, epoch) for epoch in range(case.epochs))


def _of_epoch(audits: Audits, epoch: int) -> list[int]:
    return sorted(step for each, step in audits.steps if each == epoch)


def _possible(audits: Audits, model: int, steps: range, epoch: int) -> list[list[int]]:
    entropy = int(audits.entropy, 16)
    return [drawn_steps(count, steps, entropy, model, epoch) for count in range(1, MOST + 1)]


def _counted(subject: Subject) -> bool:
    """Whether the first model has no more audited steps than all models, and none in other epochs."""
    raw = _raw(subject)
    found = raw.replay.audits
    return found is None or (
        len(found.steps) <= raw.replay.steps and all(epoch < subject.case.epochs for epoch, _ in found.steps)
    )


def _repeated(subject: Subject) -> bool:
    found, models = _raw(subject).replay.repeated, subject.case.groups
    return found is None or (models > 1 and found <= models)


COPIES = Claim(
    "replay: copies of audited steps are part of the training time",
    lambda subject: (subject.entry.raw.replay.inside_share or 0.0) <= 1,
    changed("raw.replay.inside_share", 1.5),
)
OF_TRIALS = (
    Claim(
        "replay.audits: of one training, not of trials",
        lambda subject: subject.entry.raw.replay.audits is None,
        changed("raw.replay.audits", {"entropy": "0" * 16, "steps": []}),
    ),
    Claim(
        "replay: last weights of ensembles, not of trials",
        lambda subject: (subject.entry.raw.replay.weights, subject.entry.raw.replay.repeated) == (None, None),
        changed("raw.replay.repeated", 0),
    ),
)
AUDITS = (
    COPIES,
    Claim(
        "replay.repeated: of several models only, and no more than these",
        _repeated,
        changed("raw.replay.repeated", 10**6),
    ),
    Claim("replay.audits: steps drawn from the entropy", _drawn, changed("raw.replay.audits.entropy", "0" * 16)),
    Claim(
        "replay.audits: no more steps than all models have",
        _counted,
        changed("raw.replay.audits.steps", [[10**6, 0]]),
    ),
)
