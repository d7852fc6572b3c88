"""The JSON schema of result.json (draft 2020-12); a test holds real results against it."""

import json
from typing import Any

from hpcai.inputfile import KEYS, SECTIONS
from hpcai.result import SCHEMA

Json = dict[str, Any]

NUMBER: Json = {"type": "number"}
COUNT: Json = {"type": "integer", "minimum": 0}
TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
SHA256: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
VERDICT: Json = {"enum": ["PASSED", "FAILED", "NOT CHECKED"]}
STATUS: Json = {"enum": ["VALID", "UNOFFICIAL", "INVALID"]}


def _or_null(kind: Json) -> Json:
    return {"anyOf": [kind, {"type": "null"}]}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _section(name: str) -> Json:
    """A section of the input: every KEY it has, with its values."""
    keys = {
        key.name: _object({"values": _list(VALUES.get(key.kind, TEXT)), "default": FLAG})
        for key in KEYS
        if name in key.sections
    }
    return _object({"name": {"const": name}, "keys": _object(keys)})


def _object(fields: Json, optional: Json | None = None) -> Json:
    """An object with these fields, perhaps some more, and no others."""
    properties = {**fields, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}


VALUES: Json = {"integer": {"type": "integer"}, "real": NUMBER}  # by kind of KEY; all others are text
PHASES = {
    phase: {"type": "number", "minimum": 0}
    for phase in ("set-up", "residuals", "warm-up", "training", "data wait", "validation", "ensemble")
}
FIRST_PHASE = {"start-up": {"type": "number", "minimum": 0}}  # of the first test
CHECK = _object({"name": TEXT, "value": NUMBER, "limit": NUMBER, "verdict": VERDICT})
SCORES = _object(
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
        "out_of_bag": _or_null(NUMBER),
        "disagreement": _or_null(NUMBER),
        "time_to_quality": _or_null(NUMBER),
        "time_to_quality_mean": _or_null(NUMBER),
        "epochs_to_quality": _or_null(NUMBER),
        "epochs_to_quality_mean": _or_null(NUMBER),
        "efficiency": NUMBER,
        "images_per_second": NUMBER,
        "data_wait_share": NUMBER,
    }
)
OPERATIONS = _object({"rule": TEXT, "per_sample": COUNT, "credited": COUNT, "executed": COUNT})
DATASET = _object(
    {
        "name": TEXT,
        "fingerprint": SHA256,
        "shape": {"type": "array", "items": COUNT, "minItems": 3, "maxItems": 3},
        "classes": COUNT,
        "training_samples": COUNT,
        "validation_samples": COUNT,
    }
)
WORST = _object({"value": NUMBER, "where": TEXT})
CURVE = _object(
    {
        "epoch": COUNT,
        "seconds": NUMBER,
        "loss": _or_null(NUMBER),
        "correct": COUNT,
        "counted": COUNT,
        "fingerprint": COUNT,
    }
)
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
RAW = _object(
    {
        "backend": {"enum": ["none", "gloo", "nccl"]},
        "dataset": DATASET,
        "target": NUMBER,
        "sharding": TEXT,
        "residuals": _object({"scaled": WORST, "elementwise": WORST}),
        "curve": _list(CURVE),
        **dict.fromkeys(COUNTED, COUNT),
        "reached_seconds_sum": NUMBER,
        "reached_seconds_max": NUMBER,
        "phases": _object(PHASES, FIRST_PHASE),
    }
)
TEST = _object(
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
        "settings": _object({key.name: VALUES.get(key.kind, TEXT) for key in KEYS}),
        "operations": OPERATIONS,
        "checks": _list(CHECK),
        "verdict": VERDICT,
        "scores": SCORES,
        "phases": _object(PHASES, FIRST_PHASE),
        "raw": RAW,
        "status": STATUS,
        "reasons": _list(TEXT),
    }
)
BEST = _object(
    {
        "index": COUNT,
        "gflops": NUMBER,
        "valid_gflops": NUMBER,
        "quality": NUMBER,
        "target": NUMBER,
        "P": COUNT,
        "Q": COUNT,
        "time": NUMBER,
    }
)
SUMMARY = _object(
    {
        "complete": FLAG,
        "planned": COUNT,
        "tests": COUNT,
        "passed": COUNT,
        "failed": COUNT,
        "skipped": COUNT,
        "valid": STATUS,
        "reasons": _list(TEXT),
        "best": _or_null(BEST),
        "fingerprint": SHA256,
    }
)
RANK = _object(
    {"rank": COUNT, "groups": _list(_or_null(COUNT)), "host": TEXT, "device": TEXT, "cpus": TEXT, "threads": COUNT}
)
INPUT = _object(
    {
        "name": TEXT,
        "digest": SHA256,
        "headers": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2},
        "text": TEXT,
        "overrides": _list(TEXT),
        "run": _object(
            {
                key.name: _object({"value": VALUES.get(key.kind, TEXT), "default": FLAG})
                for key in KEYS
                if not key.sections
            }
        ),
        "sections": {"type": "array", "items": {"anyOf": [_section(workload.name) for workload in SECTIONS]}},
    }
)
ENVIRONMENT = _object(
    {
        "ranks": COUNT,
        "nodes": COUNT,
        "accelerators": COUNT,
        "processor": TEXT,
        "cpus": COUNT,
        "memory_bytes": COUNT,
        "device": TEXT,
        "system": TEXT,
        "python": TEXT,
        "mpi": TEXT,
        "packages": {"type": "object", "additionalProperties": TEXT},
        "grids": _list(TEXT),
        "idle": _list(TEXT),
        "warnings": _list(TEXT),
    }
)


def schema() -> Json:
    """The schema as a JSON document."""
    fields = {
        "schema": {"const": SCHEMA},
        "version": TEXT,
        "date": TEXT,
        "input": INPUT,
        "environment": ENVIRONMENT,
        "ranks": _list(RANK),
        "tests": _list(TEST),
        "kernels": {"type": "array", "maxItems": 0},
        "collectives": {"type": "array", "maxItems": 0},
        "summary": SUMMARY,
        "digest": SHA256,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "HPCAI bench result", **_object(fields)}


def text() -> str:
    """The schema as it is printed."""
    return json.dumps(schema(), indent=1)
