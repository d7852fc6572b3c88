"""Claims about `[toy]`, each with a counterexample: the raw measurements follow from input and seed."""

from hpcai.claims.memory_claims import MEMORY
from hpcai.claims.telemetry_claims import ROW_TELEMETRY
from hpcai.results.alterations import changed
from hpcai.results.claim import Claim, Claims, Subject
from toy_workload.checks import hits_of


def _points(subject: Subject) -> bool:
    case = subject.case
    return bool(subject.entry.raw.points == case.groups * case.degree * case["POINTS"])


def _hits(subject: Subject) -> bool:
    case = subject.case
    groups, ranks = case.groups, case.degree
    drawn = [sum(hits_of(case, group * ranks + member) for member in range(ranks)) for group in range(groups)]
    return list(subject.entry.raw.hits) == drawn


CLAIMS: Claims = (
    (
        Claim("points: POINTS of each rank", _points, changed("raw.points", 7)),
        Claim("hits: of the points that SEED draws", _hits, changed("raw.hits.0", 7)),
        *MEMORY,
        *ROW_TELEMETRY,
    ),
)
STOPPED_CLAIMS: Claims = ()
