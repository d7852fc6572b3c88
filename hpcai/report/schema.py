"""The JSON schema of result.json (draft 2020-12); a test holds real results against it."""

import json
from typing import Any

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


def _object(fields: Json, closed: bool = True) -> Json:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": not closed}


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
        "settings": {"type": "object"},
        "operations": OPERATIONS,
        "checks": _list(CHECK),
        "verdict": VERDICT,
        "scores": SCORES,
        "phases": {"type": "object", "additionalProperties": NUMBER},
        "raw": {"type": "object"},
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
INPUT = _object({"name": TEXT, "text": TEXT, "digest": SHA256, "overrides": _list(TEXT)}, closed=False)
ENVIRONMENT = _object(
    {"ranks": COUNT, "nodes": COUNT, "accelerators": COUNT, "mpi": TEXT, "packages": {"type": "object"}}, closed=False
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
        "kernels": _list({"type": "object"}),
        "collectives": _list({"type": "object"}),
        "summary": SUMMARY,
        "digest": SHA256,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "HPCAI bench result", **_object(fields)}


def text() -> str:
    """The schema as it is printed."""
    return json.dumps(schema(), indent=1)
