"""The words the schema is written in: kinds of values, lists and objects."""

from typing import Any

from hpcai.inputfile.keys import keys_of

Json = dict[str, Any]

NUMBER: Json = {"type": "number"}
COUNT: Json = {"type": "integer", "minimum": 0}
POSITIVE: Json = {"type": "integer", "minimum": 1}
SECONDS: Json = {"type": "number", "minimum": 0}
TEXT: Json = {"type": "string"}
NAME: Json = {"type": "string", "pattern": "^.+$"}
UTC: Json = {
    "type": "string",
    "pattern": ("^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9][+]00:00$"),
}
FLAG: Json = {"type": "boolean"}
SHA256: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
VERDICT: Json = {"enum": ["PASSED", "FAILED", "NOT CHECKED"]}
STATUS: Json = {"enum": ["VALID", "UNOFFICIAL", "INVALID"]}


def or_null(kind: Json) -> Json:
    return {"anyOf": [kind, {"type": "null"}]}


def list_of(items: Json) -> Json:
    return {"type": "array", "items": items}


def object_of(fields: Json, optional: Json | None = None) -> Json:
    """An object with these fields, perhaps some more, and no others."""
    properties = {**fields, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(fields), "additionalProperties": False}


# of a table's memory and, with more, of a training's
MEMORY: Json = {
    "peak_bytes": COUNT,
    "baseline_bytes": COUNT,
    "planned_bytes": COUNT,
    "device_peak_bytes": COUNT,
    "whole_run": FLAG,
    "accelerated": FLAG,
}

# by kind of KEY; all others are text
VALUES: Json = {"integer": {"type": "integer"}, "real": NUMBER, "shapes": {"anyOf": [{"type": "integer"}, TEXT]}}


def settings_of(section: str) -> Json:
    """The settings of a case of a section: one value of each KEY, or all where they belong together."""
    kinds = {key: VALUES.get(key.kind, TEXT) for key in (*keys_of(""), *keys_of(section))}
    return object_of({key.name: list_of(kind) if key.listed else kind for key, kind in kinds.items()})
