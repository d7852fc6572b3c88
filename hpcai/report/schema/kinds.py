"""The words the schema is written in: kinds of values, lists and objects."""

from typing import Any

Json = dict[str, Any]

NUMBER: Json = {"type": "number"}
COUNT: Json = {"type": "integer", "minimum": 0}
TEXT: Json = {"type": "string"}
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


VALUES: Json = {"integer": {"type": "integer"}, "real": NUMBER}  # by kind of KEY; all others are text
