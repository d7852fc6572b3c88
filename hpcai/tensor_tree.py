"""Nested dictionaries, lists and tuples of tensors and plain values, as tensors by name and an object of JSON."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

PLAIN = (bool, int, float, str, type(None))


def separate(value: Any, name: str = "") -> tuple[dict[str, Tensor], Any]:
    """The tensors of a value by name, and the form that `join` makes the value of again.

    TypeError for what is neither a tensor, a dictionary with plain keys, a list, a tuple, nor plain.
    """
    if isinstance(value, Tensor):
        return {name: value}, {"tensor": name}
    if isinstance(value, dict):
        tensors, items = _separate_all([*value.values()], [f"{name}/{key}" for key in value])
        return tensors, {"dict": [[_plain(key), item] for key, item in zip(value, items, strict=True)]}
    if type(value) in (list, tuple):
        tensors, items = _separate_all(value, [f"{name}/{number}" for number in range(len(value))])
        return tensors, {"tuple": items} if type(value) is tuple else items
    return {}, _plain(value)


def join(tensors: Mapping[str, Tensor], form: Any) -> Any:
    """The value that `separate` took apart. KeyError, TypeError or ValueError for any other form."""
    if isinstance(form, list):
        return [join(tensors, item) for item in form]
    if not isinstance(form, dict):
        return form
    (kind, content), *_ = form.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "tuple":
        return tuple(join(tensors, content))
    return {key: join(tensors, item) for key, item in content}


def _separate_all(values: Any, names: list[str]) -> tuple[dict[str, Tensor], list[Any]]:
    tensors: dict[str, Tensor] = {}
    forms = []
    for value, name in zip(values, names, strict=True):
        found, form = separate(value, name)
        if clash := tensors.keys() & found.keys():
            raise TypeError(f"two tensors have the name {min(clash)}")
        tensors |= found
        forms.append(form)
    return tensors, forms


def _plain(value: Any) -> Any:
    if type(value) not in PLAIN:
        raise TypeError(f"a value of type {type(value).__name__} cannot be written")
    return value
