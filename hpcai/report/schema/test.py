"""The part of the schema that says what follows from a test: operations, checks and scores."""

from hpcai.report.schema.kinds import (
    COUNT,
    FLAG,
    NUMBER,
    STATUS,
    TEXT,
    VERDICT,
    Json,
    list_of,
    object_of,
    or_null,
    settings_of,
)
from hpcai.report.schema.raw import FIRST_PHASE, PHASES, PRECISION, RAW
from hpcai.report.schema.roofline import GRADIENT_BANDWIDTH, ROOFLINE
from hpcai.result.times import TRAINING_PARTS, WITHIN_TRAINING
from hpcai.train.operators import CLASSES


def _outermost(phases: Json) -> Json:
    """The phases that are part of no other."""
    return {phase: NUMBER for phase in phases if phase not in WITHIN_TRAINING}


CHECK = object_of({"name": TEXT, "value": or_null(NUMBER), "limit": NUMBER, "verdict": VERDICT})
EVERY_SCORE = {
    "flops": NUMBER,
    "valid_flops": NUMBER,
    "quality": NUMBER,
    "target": NUMBER,
    "reached": FLAG,
    "member_mean": NUMBER,
    "member_min": NUMBER,
    "member_max": NUMBER,
    "member_best": NUMBER,
    "out_of_bag": or_null(NUMBER),
    "disagreement": or_null(NUMBER),
    "time_to_quality": or_null(NUMBER),
    "time_to_quality_mean": or_null(NUMBER),
    "epochs_to_quality": or_null(NUMBER),
    "epochs_to_quality_mean": or_null(NUMBER),
    "efficiency": NUMBER,
    "precision_speed": or_null(NUMBER),
    "speedup": or_null(NUMBER),
    "quality_difference": or_null(NUMBER),
    "images_per_second": NUMBER,
    "memory_share": NUMBER,
    "roofline": ROOFLINE,
    "gradient_bandwidth": GRADIENT_BANDWIDTH,
    "busy_spread": NUMBER,
    "training_shares": object_of(dict.fromkeys(TRAINING_PARTS, NUMBER)),
    "phase_shares": object_of(_outermost(PHASES), _outermost(FIRST_PHASE)),
    "operation_shares": or_null(object_of(dict.fromkeys(CLASSES, NUMBER))),
}
OF_WEATHER = {
    "mean_average_precision": object_of({"0.5": NUMBER, "0.1": NUMBER}),
    "class_precision": PRECISION,
    "loading": object_of(
        {
            "read_rate": or_null(NUMBER),
            "reading_share": or_null(NUMBER),
            "decompressing_share": or_null(NUMBER),
            "loading_share": NUMBER,
        }
    ),
}
STAGED = {
    "staging_rate": NUMBER,
    "kernels_speed": or_null(NUMBER),
    "kernels_ours": object_of({"directions": NUMBER, "normalisations": NUMBER}),
}
SCORES = {
    "ensemble": object_of(EVERY_SCORE, STAGED),
    "weather": object_of({**EVERY_SCORE, **OF_WEATHER}, STAGED),
}
OPERATIONS = object_of({"rule": TEXT, "per_sample": COUNT, "credited": COUNT, "skipped": COUNT, "executed": COUNT})


def _test(workload: str) -> Json:
    """A test of a workload whose models are trained and judged together."""
    return object_of(
        {
            "index": COUNT,
            "tv": {"type": "string", "pattern": "^W[RC][0-9]{2}[A-Z][0-9][A-Z][0-9]$"},
            "workload": {"const": workload},
            "n": COUNT,
            "nb": COUNT,
            "p": COUNT,
            "q": COUNT,
            "seconds": NUMBER,
            "gflops": NUMBER,
            "settings": settings_of(workload),
            "operations": OPERATIONS,
            "checks": list_of(CHECK),
            "verdict": VERDICT,
            "scores": SCORES[workload],
            "phases": object_of(PHASES, FIRST_PHASE),
            "raw": RAW[workload],
            "status": STATUS,
            "reasons": list_of(TEXT),
        }
    )


TESTS = [_test(workload) for workload in RAW]
