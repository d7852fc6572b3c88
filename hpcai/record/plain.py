"""Records as plain JSON values: text and digest, made in parts, so that a long result is never held as one document."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
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
    """The text of a file with the record. ValueError for a number that is not finite."""
    return "".join(text_parts(record))


def text_parts(record: Record) -> Iterator[str]:
    """The text of a file with the record, in parts: an item of a list at a time."""
    for number, (name, value) in enumerate(_members(record)):
        yield f'{"," if number else "{"}\n "{name}": '
        if isinstance(value, tuple) and value:
            for index, item in enumerate(value):
                yield f"{',' if index else '['}\n  {_indented(item, 2)}"
            yield "\n ]"
        else:
            yield _indented(value, 1)
    yield "\n}\n"


def digest(document: Json | Record, without: Collection[str] = ("digest",)) -> str:
    """SHA-256 (hexadecimal) of a JSON document without some of its members: keys sorted, no blanks, UTF-8."""
    total = hashlib.sha256()
    bare = {name: value for name, value in _members(document) if name not in without}
    for part in _canonical_parts(bare):
        total.update(part.encode())
    return total.hexdigest()


def _canonical_parts(document: Json) -> Iterator[str]:
    yield "{"
    for number, (name, value) in enumerate(sorted(document.items(), key=itemgetter(0))):
        yield f"{',' if number else ''}{_canonical(name)}:"
        if isinstance(value, tuple | list) and value:
            yield from (f"{',' if index else '['}{_canonical(item)}" for index, item in enumerate(value))
            yield "]"
        else:
            yield _canonical(value)
    yield "}"


def _members(document: Json | Record) -> Iterable[tuple[str, Any]]:
    """Names and values of the outermost object."""
    if isinstance(document, Record):
        return ((name, getattr(document, name)) for name in document.__struct_fields__)
    return document.items()


def _canonical(value: Any) -> str:
    bare = to_builtins(value, str_keys=True)
    return json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _indented(value: Any, depth: int) -> str:
    """JSON text of a value that lies in so many others; a string has no line break in it."""
    written = json.dumps(to_builtins(value), indent=1, ensure_ascii=False, allow_nan=False)
    return written.replace("\n", "\n" + " " * depth)
