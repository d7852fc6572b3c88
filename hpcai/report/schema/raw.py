"""The part of the schema that says what was measured in a test."""

from hpcai.report.schema.kinds import (
    COUNT,
    FLAG,
    MEMORY,
    NAME,
    NUMBER,
    POSITIVE,
    SECONDS,
    SHA256,
    TEXT,
    list_of,
    object_of,
    or_null,
)
from hpcai.report.schema.telemetry import TELEMETRY
from hpcai.result.choice import FORWARD, GRADIENTS
from hpcai.train.operators import CLASSES

PHASES = dict.fromkeys(
    (
        "set-up",
        "residuals",
        "warm-up",
        "training",
        "data wait",
        "exposed communication",
        "audit",
        "validation",
        "profile",
        "ensemble",
    ),
    SECONDS,
)
# of the first test, of those whose data are staged, of precisions other than fp32, and of kernels of ours
FIRST_PHASE = dict.fromkeys(("start-up", "staging", "choice", "probe", "beside"), SECONDS)
DATASET = object_of(
    {
        "name": NAME,
        "fingerprint": SHA256,
        "shape": {"type": "array", "items": POSITIVE, "minItems": 3, "maxItems": 3},
        "classes": POSITIVE,
        "training_samples": POSITIVE,
        "validation_samples": POSITIVE,
    },
    {"ceiling": NUMBER, "ceiling_error": NUMBER},
)
WORST = object_of({"value": NUMBER, "where": TEXT})
RESIDUALS = object_of({"scaled": WORST, "elementwise": WORST}, {"wrong": object_of({"value": COUNT, "where": TEXT})})
ENTRY = {"epoch": COUNT, "seconds": SECONDS, "loss": or_null(NUMBER), "counted": COUNT, "fingerprint": COUNT}
PRECISION = list_of(or_null(NUMBER))  # of each class; of one without true boxes none
CURVE = object_of({**ENTRY, "correct": COUNT})
CURVE_OF_BOXES = object_of({**ENTRY, "average_precision": PRECISION})
LOADING = object_of(
    {"bytes_read": COUNT, "read_seconds": SECONDS, "decompress_seconds": SECONDS, "load_seconds": SECONDS}
)
AUDIT = object_of({"steps": COUNT, "wrong_epochs": COUNT, "changed_ranks": COUNT, "deviation": WORST, "lost": WORST})
STEP_SECONDS = object_of({"count": COUNT, "mean": NUMBER, "median": NUMBER, "p95": NUMBER})
BUSY_SECONDS = object_of({"min": NUMBER, "mean": NUMBER, "max": NUMBER, "slowest_rank": COUNT, "slowest_host": TEXT})
WAITING_SECONDS = object_of({"data": SECONDS, "communication": SECONDS})
OPERATION_SECONDS = object_of(dict.fromkeys(CLASSES, SECONDS))
STAGING = object_of({"bytes": COUNT, "reused_bytes": COUNT, "nodes": COUNT, "seconds": NUMBER, "kept": FLAG})
EXECUTION = object_of(
    {
        "by": {"enum": ["layer by layer", "torch.compile", "CUDA graphs"]},
        "graphs": COUNT,
        "late_graphs": COUNT,
        "compile_seconds": SECONDS,
        "trials": {"type": "object", "additionalProperties": SECONDS},
        "buckets": COUNT,
    }
)
TRAINING_MEMORY = object_of(
    {**MEMORY, "data_bytes": COUNT, "samples": COUNT, "picture_bytes": COUNT, "converted": FLAG}
)
PROBE = object_of({"fp32_seconds": NUMBER, "seconds": NUMBER, "converted": FLAG})
LOSSES, LOSS = ({"type": "array", "items": NUMBER, "minItems": many, "maxItems": many} for many in (4, 1))
LAYER = object_of({"where": NAME, "off": NUMBER, "rounding": NUMBER, "size": NUMBER})
BESIDE = object_of(
    {
        "losses": object_of({"custom": LOSSES, "vendor": LOSSES, "rounding": NUMBER}),
        "gradient": LAYER,
        "statistics": LAYER,
        "custom_seconds": NUMBER,
        "vendor_seconds": NUMBER,
    },
    {"evaluated": object_of({"custom": LOSS, "vendor": LOSS, "rounding": NUMBER})},
)
PASSES = ("vendor", "mixed", "custom")
CHOICE = object_of(
    {
        "rounds": POSITIVE,
        "products": list_of(
            object_of(
                {
                    "kernel": {"enum": ["conv2d", "gemm"]},
                    "shape": TEXT,
                    "layers": POSITIVE,
                    "forward": object_of(dict.fromkeys(PASSES, NUMBER)),
                    "backward": object_of(dict.fromkeys(PASSES, NUMBER), dict.fromkeys(GRADIENTS, NUMBER)),
                    "ours": list_of({"enum": [FORWARD, *GRADIENTS]}),
                }
            )
        ),
        "normalisations": list_of(
            object_of({"shape": TEXT, "layers": POSITIVE, "vendor": NUMBER, "custom": NUMBER, "ours": FLAG})
        ),
        "whole": or_null(object_of({"vendor": NUMBER, "chosen": NUMBER})),
    }
)
OWN_KERNELS = {
    "own_kernels": object_of({"sha256": SHA256, "computes": list_of({"enum": ["convolve", "multiply"]})})
}
COUNTED = (
    "steps_per_epoch",
    "warmup_steps",
    "wrong_sums",
    "bag_judged",
    "samples",
    "skipped_steps",
    "skipped_samples",
    "executed_operations",
    "differing_ranks",
    "steps",
    "validation_passes",
    "validation_counted",
    "validation_miscounted",
    "diverged_models",
    "model_steps_min",
    "model_steps_max",
    "reached_models",
    "reached_epochs_sum",
    "reached_epochs_max",
)
MEMBERS = ("sum", "min", "max", "best")
OF_PICTURES = {
    "curve": list_of(CURVE),
    **dict.fromkeys(("correct", "agreeing_pairs", "bag_correct"), COUNT),
    **{f"member_correct_{name}": COUNT for name in MEMBERS},
}
OF_WEATHER = {
    "curve": list_of(CURVE_OF_BOXES),
    "average_precision": object_of({"0.5": PRECISION, "0.1": PRECISION}),
    "bag_average_precision": PRECISION,
    "true_boxes": list_of(COUNT),
    "agreement": NUMBER,
    "detections_sha256": SHA256,
    "loading": LOADING,
    **{f"member_quality_{name}": NUMBER for name in MEMBERS},
}
ALL = {
    "backend": {"enum": ["none", "gloo", "nccl"]},
    "dataset": DATASET,
    "target": NUMBER,
    "sharding": TEXT,
    "residuals": RESIDUALS,
    "audit": AUDIT,
    "execution": EXECUTION,
    **dict.fromkeys(COUNTED, COUNT),
    "reached_seconds_sum": NUMBER,
    "reached_seconds_max": NUMBER,
    "phases": object_of(PHASES, FIRST_PHASE),
    "step_seconds": STEP_SECONDS,
    "busy_seconds": BUSY_SECONDS,
    "waiting_seconds": WAITING_SECONDS,
    "operation_seconds": OPERATION_SECONDS,
    "memory": TRAINING_MEMORY,
}
SOME = {"staging": STAGING, "probe": PROBE, "beside": BESIDE, "choice": CHOICE, **OWN_KERNELS}
SOME |= {"models_between_nodes": COUNT, "telemetry": TELEMETRY}
RAW = {
    "ensemble": object_of({**ALL, **OF_PICTURES}, SOME),
    "weather": object_of({**ALL, **OF_WEATHER}, SOME),
}
