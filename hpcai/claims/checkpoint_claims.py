"""Claims about the checkpoints of a test, for all workloads whose models have some."""

from hpcai.record.checkpoints import Checkpoints
from hpcai.results.alterations import changed, together
from hpcai.results.claim import Claim, Subject

NONE, RESUMED = {"pauses": 0, "resumed": 0}, {"pauses": 0, "resumed": 1}


def _found(subject: Subject) -> Checkpoints | None:
    found: Checkpoints | None = subject.entry.raw.checkpoints
    return found


def _asked(subject: Subject) -> bool:
    return _found(subject) is None or float(subject.entry.settings["CHECKPOINT"]) > 0


def _resumed(subject: Subject) -> bool:
    found = _found(subject)
    return found is None or found.resumed <= found.pauses


def _apart(subject: Subject) -> bool:
    """A model pauses once in CHECKPOINT seconds of a job, and where a job is stopped."""
    found, case, accounting = _found(subject), subject.case, subject.entry.raw.accounting
    if found is None or accounting is None or not case.checkpoint:
        return True
    return found.pauses <= case.groups * (accounting.wall / case.checkpoint + 1) + found.resumed


CHECKPOINTS = (
    Claim(
        "checkpoints: only where CHECKPOINT > 0",
        _asked,
        together(changed("settings.CHECKPOINT", 0.0), changed("raw.checkpoints", NONE)),
    ),
    Claim("checkpoints: a model goes on from one that was written", _resumed, changed("raw.checkpoints", RESUMED)),
    Claim(
        "checkpoints: pauses are CHECKPOINT seconds apart",
        _apart,
        changed("raw.checkpoints", {"pauses": 10**6, "resumed": 0}),
    ),
)
