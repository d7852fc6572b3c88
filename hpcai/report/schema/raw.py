"""The part of the schema that says what was measured in a test."""

from hpcai.report.schema.kinds import COUNT, FLAG, NUMBER, SHA256, TEXT, list_of, object_of, or_null

PHASES = {
    phase: {"type": "number", "minimum": 0}
    for phase in ("set-up", "residuals", "warm-up", "training", "data wait", "validation", "ensemble")
}
# Of the first test, and of those whose data are staged.
FIRST_PHASE = {phase: {"type": "number", "minimum": 0} for phase in ("start-up", "staging")}
DATASET = object_of(
    {
        "name": TEXT,
        "fingerprint": SHA256,
        "shape": {"type": "array", "items": COUNT, "minItems": 3, "maxItems": 3},
        "classes": COUNT,
        "training_samples": COUNT,
        "validation_samples": COUNT,
    },
    {"ceiling": NUMBER, "ceiling_error": NUMBER},
)
WORST = object_of({"value": NUMBER, "where": TEXT})
CURVE = object_of(
    {
        "epoch": COUNT,
        "seconds": NUMBER,
        "loss": or_null(NUMBER),
        "correct": COUNT,
        "counted": COUNT,
        "fingerprint": COUNT,
    }
)
STAGING = object_of({"bytes": COUNT, "reused_bytes": COUNT, "nodes": COUNT, "seconds": NUMBER, "kept": FLAG})
COUNTED = (
    "steps_per_epoch",
    "warmup_steps",
    "wrong_sums",
    "correct",
    "agreeing_pairs",
    "bag_correct",
    "bag_judged",
    "samples",
    "executed_operations",
    "differing_ranks",
    "steps",
    "validation_passes",
    "validation_counted",
    "validation_miscounted",
    "diverged_models",
    "member_correct_sum",
    "member_correct_min",
    "member_correct_max",
    "member_correct_best",
    "model_steps_min",
    "model_steps_max",
    "reached_models",
    "reached_epochs_sum",
    "reached_epochs_max",
)
RAW = object_of(
    {
        "backend": {"enum": ["none", "gloo", "nccl"]},
        "dataset": DATASET,
        "target": NUMBER,
        "sharding": TEXT,
        "residuals": object_of({"scaled": WORST, "elementwise": WORST}),
        "curve": list_of(CURVE),
        **dict.fromkeys(COUNTED, COUNT),
        "reached_seconds_sum": NUMBER,
        "reached_seconds_max": NUMBER,
        "phases": object_of(PHASES, FIRST_PHASE),
    },
    {"staging": STAGING},
)
