"""The part of the schema that says what a table is: its case, what was measured, and what follows from that."""

from hpcai.report.schema import collectives, kernels
from hpcai.report.schema.kinds import MEMORY, POSITIVE, VERDICT, Json, list_of, object_of, settings_of
from hpcai.report.schema.telemetry import TELEMETRY


def _table(workload: str, raw: Json, derived: Json) -> Json:
    known = {"index": POSITIVE, "workload": {"const": workload}, "settings": settings_of(workload)}
    measured = object_of({**raw["properties"], "memory": object_of(MEMORY)}, {"telemetry": TELEMETRY})
    return object_of({**known, "raw": measured, "verdict": VERDICT, **derived})


TABLE = {
    "anyOf": [
        _table("kernels", kernels.RAW, {"ceilings": kernels.CEILINGS}),
        _table("comm", collectives.RAW, {"fits": list_of(collectives.FIT)}),
    ]
}
ROWS = {"kernels": list_of(kernels.ROW), "collectives": list_of(collectives.ROW)}
