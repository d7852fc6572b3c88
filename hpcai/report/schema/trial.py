"""The part of the schema that says what a search tells of its trials."""

from hpcai.networks.morphism import KERNEL_SIZES, KINDS
from hpcai.record.trial import ENDS, MOST_MORPHISMS
from hpcai.report.schema.kinds import COUNT, NAME, NUMBER, POSITIVE, SECONDS, Json, list_of, object_of, or_null

SIDE: Json = {"enum": list(KERNEL_SIZES)}
OF_MORPHISM = {
    "deepen": {"after": NAME, "kernel": SIDE},
    "widen": {"layer": NAME, "channels": POSITIVE},
    "kernel": {"layer": NAME, "size": SIDE},
    "skip": {"start": NAME, "end": NAME},
}
MORPHISM: Json = {
    "anyOf": [object_of({"operation": {"const": kind}, **fields}) for kind, fields in OF_MORPHISM.items()]
}
HYPERPARAMETERS = object_of({"batch": POSITIVE, "kernel": SIDE})
JUDGED = object_of(
    {
        "epoch": POSITIVE,
        "seconds": SECONDS,
        "loss": or_null(NUMBER),
        "validation_loss": or_null(NUMBER),
        "samples": COUNT,
        "skipped": COUNT,
        "correct": or_null(COUNT),
        "counted": COUNT,
        "fingerprint": COUNT,
    }
)
KNOWN = {
    "id": POSITIVE,
    "worker": COUNT,
    "round": POSITIVE,
    "parent": or_null(POSITIVE),
    "operation": {"enum": ["initial", *KINDS]},
    "hyperparameters": HYPERPARAMETERS,
    "given": SECONDS,
    "started": SECONDS,
    "returned": SECONDS,
}
TRIAL = object_of(
    {
        **KNOWN,
        "morphisms": {**list_of(MORPHISM), "maxItems": MOST_MORPHISMS},
        "planned_epochs": POSITIVE,
        "steps": COUNT,
        "executed_operations": COUNT,
        "curve": list_of(JUDGED),
        "training_seconds": SECONDS,
        "validation_seconds": SECONDS,
        "warmup_seconds": SECONDS,
        "deviation": NUMBER,
        "nbytes": COUNT,
        "planned_bytes": COUNT,
        "end": {"enum": list(ENDS)},
    }
)
ROW = object_of({**KNOWN, "accuracy": NUMBER, "ops": COUNT, "verdict": {"enum": list(ENDS)}})
