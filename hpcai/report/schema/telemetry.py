"""The part of the schema that says what was sampled while a test ran."""

from hpcai.machine.node_sensors import NAMES
from hpcai.machine.telemetry import KEPT
from hpcai.report.schema.kinds import COUNT, NUMBER, POSITIVE, SECONDS, Json, object_of, or_null

COLUMNS = 1 + len(NAMES)
SAMPLE: Json = {"type": "array", "items": or_null(NUMBER), "minItems": COLUMNS, "maxItems": COLUMNS}
QUANTITIES = object_of(dict.fromkeys(NAMES, or_null(SECONDS)))
TELEMETRY = object_of(
    {
        "nodes": POSITIVE,
        "samples": COUNT,
        "interval": SECONDS,
        "average": QUANTITIES,
        "maximum": QUANTITIES,
        "series": {"type": "array", "items": SAMPLE, "maxItems": KEPT},
    },
    {"gpu_joules": NUMBER, "gpu_watts": NUMBER},
)
