"""The part of the schema that says what follows from a test: operations, checks and scores."""

from hpcai.inputfile import KEYS
from hpcai.report.schema.kinds import COUNT, FLAG, NUMBER, STATUS, TEXT, VALUES, VERDICT, list_of, object_of, or_null
from hpcai.report.schema.raw import FIRST_PHASE, PHASES, RAW

CHECK = object_of({"name": TEXT, "value": or_null(NUMBER), "limit": NUMBER, "verdict": VERDICT})
SCORES = object_of(
    {
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
        "images_per_second": NUMBER,
        "data_wait_share": NUMBER,
    },
    {"staging_rate": NUMBER},
)
OPERATIONS = object_of({"rule": TEXT, "per_sample": COUNT, "credited": COUNT, "executed": COUNT})
TEST = object_of(
    {
        "index": COUNT,
        "tv": {"type": "string", "pattern": "^W[RC][0-9]{2}[A-Z][0-9][A-Z][0-9]$"},
        "workload": {"enum": ["ensemble"]},
        "n": COUNT,
        "nb": COUNT,
        "p": COUNT,
        "q": COUNT,
        "seconds": NUMBER,
        "gflops": NUMBER,
        "settings": object_of({key.name: VALUES.get(key.kind, TEXT) for key in KEYS}),
        "operations": OPERATIONS,
        "checks": list_of(CHECK),
        "verdict": VERDICT,
        "scores": SCORES,
        "phases": object_of(PHASES, FIRST_PHASE),
        "raw": RAW,
        "status": STATUS,
        "reasons": list_of(TEXT),
    }
)
