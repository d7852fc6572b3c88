"""Comparison of a stored JSON document with the recomputed one."""

import json
from collections.abc import Iterator
from typing import Any

NOTHING = "nothing"


def differences_of(stored: Any, made: Any, place: str = "") -> Iterator[str]:
    """All paths where two JSON values differ, and how; numbers compare by value."""
    if isinstance(stored, dict) and isinstance(made, dict):
        for key in sorted({*stored, *made}):
            yield from differences_of(stored.get(key, NOTHING), made.get(key, NOTHING), f"{place}.{key}".lstrip("."))
    elif isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        for index, (one, other) in enumerate(zip(stored, made, strict=True)):
            yield from differences_of(one, other, f"{place}[{index}]")
    elif isinstance(stored, bool) is not isinstance(made, bool) or stored != made:
        yield f"{place}: {_short(stored)} is stored, {_short(made)} follows from the raw measurements"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else text[:97] + "..."


def first_difference(one: str, other: str) -> int:
    """Number, from 1, of the first line in which two texts differ."""
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    same = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    return 1 + (min(len(one.splitlines()), len(other.splitlines())) if same is None else same)
