"""Claims about `[errors]`: those of any training, and that the best model is the one with the fewest errors."""

from hpcai.claims.curve_claims import CURVE, reached_claims
from hpcai.claims.energy_claims import ENERGY
from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.telemetry_claims import ROW_TELEMETRY
from hpcai.claims.training_claims import BAGS, RANKS, WORK
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Claims, Subject


def _best(subject: Subject) -> bool:
    members = subject.entry.raw.members
    return bool(members.best <= members.min <= members.max)


def _error_of_best(subject: Subject) -> float:
    return float(subject.entry.raw.members.best / subject.entry.raw.dataset.validation_samples)


CLAIMS: Claims = (
    (
        *WORK,
        *RANKS,
        *BAGS,
        *CURVE,
        Claim("members.best <= min", _best, changed("raw.members.best", 10**6)),
        *reached_claims(_error_of_best),
        *MEMORY,
        *ROW_TELEMETRY,
        *ENERGY,
    ),
)
STOPPED_CLAIMS: Claims = ()
