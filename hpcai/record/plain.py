"""Records as plain JSON values: canonical text and digest."""

import hashlib
import json
from typing import Any, TypeVar

from msgspec import convert, to_builtins

from hpcai.record.record import Record

Json = dict[str, Any]
R = TypeVar("R", bound=Record)


def plain(record: Record) -> Json:
    """The record as JSON values. ValueError for a number that is not finite."""
    found: Json = json.loads(json.dumps(to_builtins(record), allow_nan=False))
    return found


def checked(record: R) -> R:
    """The record, validated by a round trip through JSON. ValidationError if a value violates its declaration.

    ValidationError where a value is not as it is declared: the program contradicts its own records.
    """
    return convert(plain(record), type(record))


def text(record: Record) -> str:
    """The record as text of a file. ValueError for a number that is not finite."""
    return json.dumps(to_builtins(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def digest(document: Json) -> str:
    """SHA-256 (hexadecimal) of a JSON document without its `digest`: keys sorted, no blanks, UTF-8."""
    bare = {key: value for key, value in document.items() if key != "digest"}
    canonical = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
