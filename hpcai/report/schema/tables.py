"""The part of the schema that says what a table is: its case, what was measured, and what follows from that."""

from hpcai.report.schema import collectives, kernels
from hpcai.report.schema.kinds import COUNT, FLAG, POSITIVE, VERDICT, Json, list_of, object_of, settings_of


def _table(workload: str, raw: Json, derived: Json) -> Json:
    known = {"index": POSITIVE, "workload": {"const": workload}, "settings": settings_of(workload)}
    measured = object_of({**raw["properties"], "memory": MEMORY})
    return object_of({**known, "raw": measured, "verdict": VERDICT, **derived})


MEMORY = object_of(
    {
        "peak_bytes": COUNT,
        "baseline_bytes": COUNT,
        "planned_bytes": COUNT,
        "device_peak_bytes": COUNT,
        "whole_run": FLAG,
        "accelerated": FLAG,
    }
)


TABLE = {
    "anyOf": [
        _table("kernels", kernels.RAW, {"ceilings": kernels.CEILINGS}),
        _table("comm", collectives.RAW, {"fits": list_of(collectives.FIT)}),
    ]
}
ROWS = {"kernels": list_of(kernels.ROW), "collectives": list_of(collectives.ROW)}
