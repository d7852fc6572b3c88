"""Types of what a result stores by KEY, made from the declaration of the KEYs: settings, values of the input."""

from functools import cache
from typing import Any, Literal

from msgspec import Struct, defstruct

from hpcai.inputfile.key import Key
from hpcai.inputfile.keys import keys_of
from hpcai.workloads import registry

# by kind of KEY; all others are texts
KINDS: dict[str, Any] = {"integer": int, "real": float, "shapes": int | str, "power": float | str}


@cache
def settings_of(section: str) -> type[Struct]:
    """Settings of a case of a section: one value of each KEY, all values of a KEY that is a list."""
    keys = (*keys_of(""), *keys_of(section))
    return _type(f"{section}_settings", {key.name: _several(key) if key.listed else _one(key) for key in keys})


@cache
def run_values() -> type[Struct]:
    """Every KEY of the run, with its value."""
    return _type("run_values", {key.name: _declared(f"{key.kind}_value", "value", _one(key)) for key in keys_of("")})


@cache
def section_values(section: str) -> type[Struct]:
    """A section of the input: every KEY that it has, with its values."""
    keys = {key.name: _declared(f"{key.kind}_values", "values", _several(key)) for key in keys_of(section)}
    return _type(f"{section}_section", {"name": Literal[section], "keys": _type(f"{section}_values", keys)})


@cache
def figures_of(section: str) -> type[Struct]:
    """Figures of the best test of a workload, by which results are ranked."""
    return _type(f"{section}_figures", {figure.name: float | None for figure in registry.workload(section).figures})


@cache
def _declared(name: str, field: str, kind: Any) -> type[Struct]:
    return _type(name, {field: kind, "default": bool})


def _one(key: Key) -> Any:
    return float | Literal[key.choices] if key.kind == "limit" else KINDS.get(key.kind, str)


def _several(key: Key) -> Any:
    return tuple[_one(key), ...]  # type: ignore[misc]


def _type(name: str, fields: dict[str, Any]) -> type[Struct]:
    return defstruct(name, fields.items(), kw_only=True, frozen=True, forbid_unknown_fields=True)
