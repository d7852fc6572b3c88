"""Alterations of an entry's JSON by path, for the counterexamples of claims.

A path is the names of fields and the numbers of list items, separated by dots; * stands for every item of a list.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from hpcai.record.plain import Json

Alteration = Callable[[Json], None]


def changed(path: str, value: Any) -> Alteration:
    """Replace the value at the path; a copy for each item of a list."""

    def alter(entry: Json) -> None:
        for holder, key in _containers(entry, path):
            holder[key] = deepcopy(value)

    return alter


def removed(path: str) -> Alteration:
    """Remove a list item."""

    def alter(entry: Json) -> None:
        for holder, key in _containers(entry, path):
            del holder[key]

    return alter


def appended(path: str, item: Any) -> Alteration:
    """Append an item to the list at the path."""

    def alter(entry: Json) -> None:
        for holder, key in _containers(entry, path):
            holder[key].append(deepcopy(item))

    return alter


def repeated(path: str) -> Alteration:
    """Append a copy of a list item to its list."""

    def alter(entry: Json) -> None:
        for holder, key in _containers(entry, path):
            holder.append(deepcopy(holder[key]))

    return alter


def together(*alterations: Alteration) -> Alteration:
    """Apply several alterations in order."""

    def alter(entry: Json) -> None:
        for each in alterations:
            each(entry)

    return alter


def _containers(value: Any, path: str) -> Iterator[tuple[Any, Any]]:
    """The objects or lists that contain the value at the path, and its key in each."""
    first, _, rest = path.partition(".")
    keys = range(len(value)) if first == "*" else [int(first) if isinstance(value, list) else first]
    for key in keys:
        if rest:
            yield from _containers(value[key], rest)
        else:
            yield value, key
