"""Typed records: the declaration of a field is its type, bounds, unit, printed label and sentence in docs/METRICS.md.

From it follow the JSON schema (hpcai.record.schema), the strict loader (hpcai.record.loading), the columns of the CSV
files, the printed lines (hpcai.report.lines) and the tables of the documents (hpcai.record.reference).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, dataclass_transform, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, StructMeta

Scalar = int | float | str
Setting = int | float | str | tuple[Scalar, ...]  # the value of a KEY in one case; all values where a KEY is a list


@dataclass_transform(frozen_default=True)
class RecordMeta(StructMeta):
    """Makes every record immutable and strict about unknown fields."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> type:
        return super().__new__(mcs, name, bases, namespace, **{"frozen": True, "forbid_unknown_fields": True, **config})


class Record(Struct, metaclass=RecordMeta):
    """Base of all records."""


def about(
    description: str, *, unit: str = "", label: str = "", scale: float = 1.0, absent: str = "n/a", csv: bool = False
) -> Meta:
    """Metadata of a field, besides its type.

    description: its sentence in the documents. unit: of the stored value, SI without prefix. label: of its printed
    line, which shows value / scale, or `absent` where the value is None (empty: no line then). A field without a label
    is not printed by itself. csv: whether a score is a column of result.csv.
    """
    extra = {"unit": unit, "label": label, "scale": scale, "absent": absent, "csv": csv}
    return Meta(description=description, extra=extra)


Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
PositiveSeconds = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
END = r"(?!\n)$"  # of a pattern: Python's `$` also matches before a final newline


def one_of(words: Iterable[str]) -> Meta:
    """A text that is one of these words, which a table has."""
    return Meta(pattern=f"^({'|'.join(words)}){END}")


Name = Annotated[str, Meta(pattern=f"^.+{END}")]  # one line
Sha256 = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]
Digits16 = Annotated[str, Meta(pattern=f"^[0-9a-f]{{16}}{END}")]  # 64 bits, hexadecimal
DAY, TIME = "(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])", "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
Utc = Annotated[str, Meta(pattern=f"^[0-9]{{4}}-{DAY}T{TIME}[+]00:00{END}")]
Verdict = Literal["PASSED", "FAILED", "NOT CHECKED"]
Status = Literal["VALID", "UNOFFICIAL", "INVALID"]
Level = Literal["hardware", "system", "free"]
Backend = Literal["none", "gloo", "nccl"]


@dataclass(frozen=True)
class Field:
    """A declared field of a record; `record` is the nested record's class, None for other types.

    None where it holds something else. several: whether it is a list, or has names of its own.
    """

    name: str
    description: str
    unit: str
    label: str
    scale: float
    absent: str
    csv: bool
    record: type[Record] | None
    several: bool


@cache
def fields(kind: type[Record]) -> tuple[Field, ...]:
    """The fields of a record, in order of declaration.

    A field declared again with another type keeps its metadata, unless it gives new ones.
    """
    hints = get_type_hints(kind, include_extras=True)
    parent = next((base for base in kind.__mro__[1:] if issubclass(base, Record) and base is not Record), None)
    before = {field.name: field for field in fields(parent)} if parent else {}
    found = (_field(name, hints[name]) for name in kind.__struct_fields__)
    return tuple(_inherited(field, before.get(field.name)) for field in found)


def _inherited(field: Field, before: Field | None) -> Field:
    return replace(before, record=field.record, several=field.several) if before and not field.description else field


def _field(name: str, hint: Any) -> Field:
    extra: dict[str, Any] = {"unit": "", "label": "", "scale": 1.0, "absent": "n/a", "csv": False}
    description = ""
    for meta in _metas(hint):
        extra |= {name: value for name, value in (meta.extra or {}).items() if name in extra}
        description = meta.description or description
    record, several = _record(hint)
    return Field(name, description, record=record, several=several, **extra)


def _metas(hint: Any) -> Iterator[Meta]:
    if get_origin(hint) is Annotated:
        kind, *metas = get_args(hint)
        yield from _metas(kind)
        yield from (meta for meta in metas if isinstance(meta, Meta))


def _record(hint: Any) -> tuple[type[Record] | None, bool]:
    """The record that a field of this type holds, itself or where it is not None; and whether it holds several."""
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind, False
    if kind not in (Annotated, Union, UnionType, tuple, dict):
        return None, False
    parts = get_args(hint)[:1] if kind is Annotated else get_args(hint)
    found, several = next((held for part in parts if (held := _record(part))[0]), (None, False))
    return found, several or (found is not None and kind in (tuple, dict))
