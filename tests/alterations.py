"""Results altered in one place, written to disk and verified."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcai.errors import InputError
from hpcai.verification import verify

Json = dict[str, Any]
Key = str | int
Where = tuple[Key, ...]


def leaves(value: Any, path: Where = ()) -> Iterator[tuple[Where, Any]]:
    """Every number, text, truth value and null in a JSON value, with its path."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))
    else:
        yield path, value


def put(document: Any, path: Where, value: Any) -> Any:
    """The document, with another value at a path."""
    holder(document, path)[path[-1]] = value
    return document


def holder(document: Any, path: Where) -> Any:
    """The object or list that holds the value at a path."""
    for key in path[:-1]:
        document = document[key]
    return document


def verified(result: Json, folder: Path) -> list[str]:
    """The findings of the verification of a result on disk."""
    path = folder / "result.json"
    path.write_text(json.dumps(result, ensure_ascii=False), "utf-8")
    return found_in(path)


def found_in(path: Path) -> list[str]:
    """The findings of the verification of a file, also of one that is no result."""
    try:
        return verify.differences(path)
    except InputError as error:
        return [str(error)]


def places(value: Any, path: Where = ()) -> Iterator[Where]:
    """The paths of all parts of a JSON value, except the value itself."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(part, (*path, key))


def other_values(value: Any) -> list[Any]:
    """Other values of the same type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, -value - 2]
    if isinstance(value, float):
        return [value * (1 + 1e-7) if value else 1e-300, math.nextafter(value, math.inf), -value]
    if isinstance(value, str):
        return [value + " ", value.swapcase() + "x", ""] if value else ["x"]
    return [0]
