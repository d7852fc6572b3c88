"""The part of the schema that says what was measured of collectives, and what follows from it."""

from hpcai.report.schema.kinds import (
    COUNT,
    NAME,
    NUMBER,
    POSITIVE,
    SECONDS,
    VERDICT,
    Json,
    list_of,
    object_of,
    or_null,
)
from hpcai.result.collectives import COLLECTIVES, SCOPES, TYPE

COLLECTIVE: Json = {"enum": [*COLLECTIVES]}
SCOPE: Json = {"enum": [*SCOPES]}
BY: Json = {"enum": ["gloo", "nccl", "mpi"]}
WHICH = {"collective": COLLECTIVE, "scope": SCOPE, "by": BY}
MEASURED = {
    **WHICH,
    "ranks": POSITIVE,
    "nbytes": POSITIVE,
    "count": POSITIVE,
    "type": {"const": TYPE},
    "redop": {"enum": ["sum", "none"]},
    "root": {"enum": [-1, 0]},
    "seconds": SECONDS,
    "iterations": POSITIVE,
    "wrong": COUNT,
}
# A whole scope; or of a scope what a backend lacks, or a size that is too small.
SKIPPED = object_of({"scope": SCOPE, "why": NAME}, {"by": BY, "collective": COLLECTIVE, "nbytes": POSITIVE})
RAW = object_of({"rows": list_of(object_of(MEASURED)), "skipped": list_of(SKIPPED)})
ROW = object_of({"test": POSITIVE, **MEASURED, "algbw": NUMBER, "busbw": NUMBER, "verdict": VERDICT})
FIT = object_of({**WHICH, "alpha": or_null(NUMBER), "beta": or_null(NUMBER), "error": or_null(NUMBER)})
