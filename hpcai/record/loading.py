"""Strict reading of result.json: no duplicate or unknown keys, exact types, tests by their workload's records.

msgspec refuses what the records do not allow; what it accepts and JSON leaves open (a key that stands twice, NaN) is
refused while the text is read.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import DecodeError, Raw, ValidationError, convert, structs

from hpcai.errors import InputError
from hpcai.record import keys
from hpcai.record.entry import Entry
from hpcai.record.older import READ, is_older, upgraded
from hpcai.record.plain import Json
from hpcai.record.record import Record
from hpcai.record.result import SCHEMA, Result
from hpcai.record.sharing import shared
from hpcai.workloads import registry


def read(path: Path) -> Json:
    """The JSON object in a result file; InputError if it is none, or of a schema that is not read."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise _no_json(str(path), error) from None
    return document_of(text, str(path))


def document_of(text: str | bytes, place: str) -> Json:
    """The JSON object of a result's text; InputError as `read` raises it."""
    try:
        stored = _parsed(text)
    except (ValueError, RecursionError) as error:
        raise _no_json(place, error) from None
    schema = stored.get("schema") if isinstance(stored, dict) else None
    if schema not in READ:
        found = f"its schema is {schema}" if isinstance(schema, str) and len(schema) < 40 else "it has no schema"
        raise InputError(f"{place} is not a result that this version reads: {found}; allowed: {', '.join(READ)}")
    return dict(stored)


def _no_json(place: str, error: Exception) -> InputError:
    return InputError(f"{place} is not JSON: {error}")


def _parsed(text: str | bytes | Raw) -> Any:
    read = bytes(text) if isinstance(text, Raw) else text
    return json.loads(read, object_pairs_hook=_object, parse_constant=_refused)


def _object(pairs: list[tuple[str, Any]]) -> Json:
    """An object without duplicate keys: readers differ on which of two values they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def load(path: Path) -> Result:
    """The result in a file; InputError names the first place that violates the records."""
    return result_of(read(path))


def load_in_parts(path: Path) -> Result | None:
    """The result in a file of this schema, read one test at a time; None for any other file, of which `load` tells."""
    try:
        members: Mapping[str, Raw] = msgspec.json.decode(path.read_bytes(), type=dict[str, Raw])
        if _parsed(members["schema"]) != SCHEMA:
            return None
        document = {name: _parsed(value) for name, value in members.items() if name != "tests"}
        return result_of({**document, "tests": msgspec.json.decode(members["tests"], type=list[Raw])})
    except (InputError, DecodeError, OSError, ValueError, RecursionError, LookupError):
        return None


def result_of(document: Json) -> Result:
    """The result that a JSON document holds, of this or an older schema; InputError as `load` raises it."""
    older, document = is_older(document), upgraded(document)
    bare = _converted({**document, "tests": [], "tables": []}, Result, "")
    _check_keys(document, bare)
    _check_best(bare, older)
    tests = _entries(document.get("tests"), "tests")
    tables = _entries(document.get("tables"), "tables")
    broken_off = bare.broken_off
    if broken_off is not None and broken_off.raw is not None:
        kind = _kind(broken_off.workload, "STOPPED", "broken_off")
        broken_off = structs.replace(broken_off, raw=_converted(broken_off.raw, kind, "broken_off.raw"))
    return structs.replace(bare, tests=tests, tables=tables, broken_off=broken_off)


def _check_keys(document: Json, found: Result) -> None:
    """Refuse KEYs of the input that it does not have, or values of another type; and a result without its end."""
    _converted(document["input"]["run"], keys.run_values(), "input.run")
    for index, section in enumerate(document["input"]["sections"]):
        place = f"input.sections[{index}]"
        _converted(section, keys.section_values(_known(section["name"], f"{place}.name")), place)
    if found.summary is None or found.digest is None:
        raise InputError("the result has no summary or no digest")


def _check_best(found: Result, older: bool) -> None:
    """Refuse best tests without the figures of their workload; older schemas lacked some."""
    assert found.summary is not None
    for index, best in enumerate(found.summary.best):
        place = f"summary.best[{index}]"
        kind = keys.figures_of(_known(best.workload, f"{place}.workload"))
        lacking = dict.fromkeys(kind.__struct_fields__) if older else {}
        _converted({**lacking, **best.figures}, kind, f"{place}.figures")


def _entries(found: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(found, list):
        raise InputError(f"{place}: not a list")
    made: list[Any] = []
    for index, value in enumerate(found):
        entry = entry_of(_parsed(value) if isinstance(value, Raw) else value, f"{place}[{index}]")
        made.append(shared(entry, made[-1] if made else None))
    return tuple(made)


def entry_of(document: Any, place: str = "") -> Entry:
    """The entry of a test as its workload declares it; InputError for any other document."""
    section = document.get("workload") if isinstance(document, dict) else None
    entry: Entry = _converted(document, _kind(section, "ENTRY", place), place)
    _converted(document["settings"], keys.settings_of(entry.workload), f"{place}.settings")
    return entry


def _kind(section: Any, name: str, place: str) -> type[Record]:
    kind = getattr(registry.part(_known(section, f"{place}.workload"), "record"), name, None)
    if kind is None:
        raise InputError(f"{place}.workload: such a test has no {name.lower()} part")
    found: type[Record] = kind
    return found


def _known(section: Any, place: str) -> str:
    """The name of a workload; InputError if there is none of that name."""
    known = [workload.name for workload in registry.workloads()]
    if section not in known:
        raise InputError(f"{place}: unknown; allowed: {', '.join(known)}".lstrip("."))
    return str(section)


def _converted(value: Any, kind: Any, place: str) -> Any:
    try:
        return convert(value, kind)
    except (ValidationError, UnicodeError, OverflowError) as error:  # msgspec accepts text that UTF-8 cannot encode
        raise InputError(_message(str(error), place)) from None


def _message(text: str, place: str) -> str:
    """msgspec's message, with the path in front: tests[0].raw.work.steps: Expected `int`, got `str`."""
    what, _, where = text.partition(" - at `$")
    where = where.rstrip("`")
    return f"{_joined([place, where]) or 'the result'}: {what}"


def _joined(parts: Iterable[str]) -> str:
    return "".join(parts).removeprefix(".")
