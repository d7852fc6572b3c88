"""The part of the schema that says what was measured of a search, and what follows from it."""

from hpcai.record.trial import ENDS
from hpcai.report.schema.kinds import (
    COUNT,
    FLAG,
    MEMORY,
    NUMBER,
    POSITIVE,
    SECONDS,
    STATUS,
    TEXT,
    VERDICT,
    list_of,
    object_of,
    or_null,
    settings_of,
)
from hpcai.report.schema.raw import AUDIT, BESIDE, DATASET, FIRST_PHASE, PROBE, RESIDUALS, SOME
from hpcai.report.schema.test import CHECK, OPERATIONS
from hpcai.report.schema.trial import ROW, TRIAL
from hpcai.result.nas_scores import PARTS

# Only the part of a search that is no trial has phases; what trials have is told of the groups.
OWN = dict.fromkeys(("set-up", "residuals", "search"), SECONDS)
OWN_PHASES = object_of(OWN, FIRST_PHASE)
OVER_GROUPS = object_of(dict.fromkeys(("min", "mean", "max"), NUMBER))
USED = object_of(MEMORY, {"data_bytes": COUNT, "samples": COUNT, "picture_bytes": COUNT, "converted": FLAG})
ENDED_BY = ("trials", "rounds", "duration", "converged", "exhausted")
COUNTED = (
    "wrong_sums",
    "retired_groups",
    "granted",
    "duplicates",
    "steps",
    "differing_ranks",
    "samples",
    "executed_operations",
    "skipped_samples",
)
MEASURED = {
    "dataset": DATASET,
    "target": NUMBER,
    "sharding": TEXT,
    "residuals": RESIDUALS,
    **dict.fromkeys(COUNTED, COUNT),
    "trials": list_of(TRIAL),
    "seconds": SECONDS,
    "group_seconds": object_of(dict.fromkeys(PARTS, OVER_GROUPS)),
    "audit": AUDIT,
    "coordinator": object_of({"requests": COUNT, "busy_seconds": SECONDS, "wait_mean": SECONDS, "wait_max": SECONDS}),
    "proposals": object_of({"count": COUNT, "rejected": COUNT, "seconds_mean": SECONDS, "seconds_max": SECONDS}),
    "largest_deviation": NUMBER,
    "phases": OWN_PHASES,
}
RAW = object_of(
    {
        **MEASURED,
        "backend": {"enum": ["none", "gloo", "nccl"]},
        "ended_by": {"enum": list(ENDED_BY)},
        "memory": USED,
    },
    SOME,
)
POINT = object_of(
    {
        "seconds": NUMBER,
        "operations": COUNT,
        "ops": NUMBER,
        "accuracy": NUMBER,
        "error": NUMBER,
        "regulated_score": NUMBER,
        "trials": COUNT,
    }
)
SCORED = (
    "flops",
    "ops",
    "regulated_score",
    "regulated_seconds",
    "regulated_last",
    "least_seconds",
    "interval",
    "quality",
    "target",
    "efficiency",
    "images_per_second",
    "idle_share",
    "coordinator_share",
    "memory_share",
)
SCORES = object_of(
    {
        **dict.fromkeys(SCORED, NUMBER),
        "series": list_of(POINT),
        "training_operations": COUNT,
        "validation_operations": COUNT,
        "reached": FLAG,
        "time_to_quality": or_null(NUMBER),
        "operations_to_quality": or_null(COUNT),
        "training_rate": or_null(NUMBER),
        "shares": object_of(dict.fromkeys(PARTS.values(), NUMBER)),
        "ends": object_of(dict.fromkeys(ENDS, COUNT)),
        "failed_trials": COUNT,
        "precision_speed": or_null(NUMBER),
    },
    {"staging_rate": NUMBER, "kernels_speed": NUMBER},
)
UNFINISHED = object_of({**MEASURED, "where": {"const": "search"}, "ended_by": TEXT}, {"probe": PROBE, "beside": BESIDE})
SEARCH = object_of(
    {
        "index": POSITIVE,
        "tv": {"type": "string", "pattern": "^W[RC]3[0-9][A-Z][0-9][A-Z][0-9]$"},
        "workload": {"const": "nas"},
        "n": COUNT,
        "nb": POSITIVE,
        "p": POSITIVE,
        "q": POSITIVE,
        "seconds": NUMBER,
        "gflops": NUMBER,
        "settings": settings_of("nas"),
        "operations": OPERATIONS,
        "checks": list_of(CHECK),
        "verdict": VERDICT,
        "scores": SCORES,
        "phases": OWN_PHASES,
        "raw": RAW,
        "trials": list_of(ROW),
        "status": STATUS,
        "reasons": list_of(TEXT),
    }
)
