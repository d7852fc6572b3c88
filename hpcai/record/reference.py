"""The tables of docs/METRICS.md and docs/RESULT.md, made from the declarations of records and checks.

A page marks the place of a table by the name of what is declared: `<!-- table hpcai.record.phases.Phases -->`. The
table stands between this line and the next `<!-- end -->`. Renew the pages:
`python -P -m hpcai.record.reference docs/METRICS.md docs/RESULT.md`.
"""

import re
from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

from hpcai.record.check_declarations import CheckDeclaration
from hpcai.record.record import Field, Record, fields

Declared = type[Record] | tuple[CheckDeclaration, ...]
MARKED = re.compile(r"(?<=<!-- table )(\S+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
DEFAULT_ABSENT = "n/a"


def renewed(pages: Sequence[str]) -> list[str]:
    """Pages with every marked table as it is declared; a record has its table on one of them."""
    own = {found for page in pages for mark in MARKED.finditer(page) if is_record(found := declared(mark[1]))}
    return [MARKED.sub(lambda mark: f"{mark[1]}{mark[2]}\n{table(declared(mark[1]), own)}\n", page) for page in pages]


def declared(name: str) -> Declared:
    """What a marker names: a record or checks."""
    module, _, member = name.rpartition(".")
    found: Declared = getattr(import_module(module), member)
    return found


def is_record(found: Declared) -> TypeGuard[type[Record]]:
    """Whether a declaration is that of a record."""
    return isinstance(found, type)


def table(found: Declared, own: Collection[type[Record]] = ()) -> str:
    """The Markdown table of a record or of checks; records in `own` have a table and are one row of others."""
    if isinstance(found, tuple):
        return _table(_check_lines(found))
    base = base_of(found, own)
    extends = f" Fields added to `{base.__name__}`, or changed:" if base else ""
    caption = f"`{found.__name__}`: {(found.__doc__ or '').splitlines()[0]}{extends}"
    return f"{caption}\n\n{_table(_record_lines(found, own))}"


def _check_lines(checks: Iterable[CheckDeclaration]) -> Iterator[list[str]]:
    yield ["check", "value", "limit"]
    yield from ([f"`{check.name}`", check.description, check.limit_text] for check in checks)


def _record_lines(kind: type[Record], own: Collection[type[Record]]) -> Iterator[list[str]]:
    """A line per field; after a field that holds a record, a line for each of that record's fields."""
    found = [*rows(kind, own)]
    columns = ["field", "unit", "meaning"]
    if any(field.label for _, field in found):
        yield ["printed line", *columns]
        yield from ([_code(field.label), *_cells(path, field, own)] for path, field in found)
    else:
        yield columns
        yield from (_cells(path, field, own) for path, field in found)


def rows(kind: type[Record], own: Collection[type[Record]], path: str = "") -> Iterator[tuple[str, Field]]:
    """The fields of a record with their paths, those of records within it included unless they are in `own`.

    Of a record that extends one in `own`, only the fields that differ.
    """
    base = base_of(kind, own)
    inherited = {*fields(base)} if base else set()
    for field in (field for field in fields(kind) if field not in inherited):
        place = f"{path}{field.name}{'[]' if field.several else ''}"
        yield place, field
        if field.record and field.record not in own:
            yield from rows(field.record, own, f"{place}.")


def base_of(kind: type[Record], own: Collection[type[Record]]) -> type[Record] | None:
    """The nearest record with a table that a record extends."""
    return next((base for base in kind.__mro__[1:] if base in own), None)


def _cells(path: str, field: Field, own: Collection[type[Record]]) -> list[str]:
    return [_code(path), field.unit, f"{field.description}{_link(field, own)}{_absent(field)}"]


def _link(field: Field, own: Collection[type[Record]]) -> str:
    """Which table has the fields of the record that a field holds."""
    if field.record is None:
        return ""
    if field.record in own:
        return f", see `{field.record.__name__}`"
    base = base_of(field.record, own)
    return f": the fields of `{base.__name__}`, and" if base else ""


def _absent(field: Field) -> str:
    """What is printed where the field has no value."""
    if not field.label or field.absent == DEFAULT_ABSENT:
        return ""
    return f"; else `{field.absent}`" if field.absent else "; no line where it is null"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(lines: Iterator[list[str]]) -> str:
    head = next(lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *map(_escaped, lines)))


def _escaped(cells: Iterable[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


def main() -> None:
    """Write documents back with their tables renewed."""
    parser = ArgumentParser(prog="python -P -m hpcai.record.reference", description="Renew the tables of documents.")
    parser.add_argument("pages", type=Path, nargs="+", help="documents whose tables belong together")
    paths: list[Path] = parser.parse_args().pages
    for path, page in zip(paths, renewed([path.read_text("utf-8") for path in paths]), strict=True):
        path.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
