"""Holds a JSON value against a schema, of which it knows the words that this schema is written in."""

import re
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def violations(value: Any, schema: Json, place: str = "") -> Iterator[str]:
    """Each place where a value is not what the schema asks for, and what that is.

    Stricter than the standard: 4.0 is no integer, and patterns describe the whole text. The schema is trusted.
    """
    for word, wanted in schema.items():
        if word in WORDS:
            yield from WORDS[word](value, wanted, schema, place)
        elif word not in SILENT:
            raise ValueError(f"the word {word} of JSON Schema; allowed: {', '.join([*WORDS, *SILENT])}")


def _fault(place: str, wanted: str) -> Iterator[str]:
    yield f"{place or 'the result'}: {wanted}"


def _type(value: Any, wanted: str, schema: Json, place: str) -> Iterator[str]:
    if not isinstance(value, TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean"):
        yield from _fault(place, f"not of type {wanted}")


def _properties(value: Any, wanted: Json, schema: Json, place: str) -> Iterator[str]:
    for name in wanted if isinstance(value, dict) else ():
        if name in value:
            yield from violations(value[name], wanted[name], f"{place}.{name}".lstrip("."))


def _required(value: Any, wanted: list[str], schema: Json, place: str) -> Iterator[str]:
    for name in wanted if isinstance(value, dict) else ():
        if name not in value:
            yield from _fault(f"{place}.{name}".lstrip("."), "is missing")


def _additional(value: Any, wanted: bool | Json, schema: Json, place: str) -> Iterator[str]:
    others = [name for name in value if name not in schema.get("properties", ())] if isinstance(value, dict) else []
    for name in others:
        where = f"{place}.{_shown(name)}".lstrip(".")
        yield from violations(value[name], wanted, where) if isinstance(wanted, dict) else _refused(wanted, where)


def _refused(allowed: bool, place: str) -> Iterator[str]:
    if not allowed:
        yield from _fault(place, "is unknown")


def _items(value: Any, wanted: Json, schema: Json, place: str) -> Iterator[str]:
    for index, item in enumerate(value) if isinstance(value, list) else ():
        yield from violations(item, wanted, f"{place}[{index}]")


def _min_items(value: Any, wanted: int, schema: Json, place: str) -> Iterator[str]:
    if isinstance(value, list) and len(value) < wanted:
        yield from _fault(place, f"less than {wanted} entries")


def _max_items(value: Any, wanted: int, schema: Json, place: str) -> Iterator[str]:
    if isinstance(value, list) and len(value) > wanted:
        yield from _fault(place, f"more than {wanted} entries")


def _minimum(value: Any, wanted: float, schema: Json, place: str) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool) and not value >= wanted:
        yield from _fault(place, f"less than {wanted}")


def _pattern(value: Any, wanted: str, schema: Json, place: str) -> Iterator[str]:
    if isinstance(value, str) and not re.fullmatch(wanted, value):
        yield from _fault(place, f"not of the form {wanted}")


def _enum(value: Any, wanted: list[Any], schema: Json, place: str) -> Iterator[str]:
    if not any(type(value) is type(choice) and value == choice for choice in wanted):
        yield from _fault(place, f"none of {', '.join(map(str, wanted))}")


def _const(value: Any, wanted: Any, schema: Json, place: str) -> Iterator[str]:
    yield from _enum(value, [wanted], schema, place)


def _any_of(value: Any, wanted: list[Json], schema: Json, place: str) -> Iterator[str]:
    """The faults by the choice of the value's own type, and name, that has fewest; none if one fits."""
    own = [choice for choice in wanted if "type" not in choice or not any(_type(value, choice["type"], choice, place))]
    named = [choice for choice in own if _named(value, choice)]
    yield from min((list(violations(value, choice, place)) for choice in named or own or wanted), key=len)


def _named(value: Any, choice: Json) -> bool:
    """Whether an object has, wherever there is but one choice, that one: it tells which kind of object it is."""
    fixed = {name: part["const"] for name, part in choice.get("properties", {}).items() if "const" in part}
    return not isinstance(value, dict) or all(value.get(name) == constant for name, constant in fixed.items())


def _shown(name: str) -> str:
    return name if len(name) <= 40 else name[:37] + "..."


WORDS: dict[str, Callable[[Any, Any, Json, str], Iterator[str]]] = {
    "type": _type,
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional,
    "items": _items,
    "minItems": _min_items,
    "maxItems": _max_items,
    "minimum": _minimum,
    "pattern": _pattern,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
}
SILENT = ("$schema", "title")
