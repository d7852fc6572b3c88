"""The part of the schema that says what is known of a test that ended early."""

from hpcai.report.schema.kinds import COUNT, NAME, NUMBER, POSITIVE, SECONDS, list_of, object_of, or_null
from hpcai.report.schema.raw import CURVE, CURVE_OF_BOXES, DATASET
from hpcai.report.schema.search import UNFINISHED

RAW = object_of(
    {
        "where": {"enum": ["preparation", "training", "ensemble"]},
        "dataset": DATASET,
        "samples": COUNT,
        "skipped_samples": COUNT,
        "executed_operations": COUNT,
        "steps": COUNT,
        "seconds": SECONDS,
        "curve": {"anyOf": [list_of(CURVE), list_of(CURVE_OF_BOXES)]},
    }
)
BROKEN_OFF = object_of(
    {
        "index": POSITIVE,
        "workload": NAME,
        "tv": or_null(NAME),
        "cause": NAME,
        "n": COUNT,
        "gflops": or_null(NUMBER),
        "raw": {"anyOf": [RAW, UNFINISHED, {"type": "null"}]},
    }
)
