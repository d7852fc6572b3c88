"""What only older results lack: a result that is being made must have it, or checks of the run were left out."""

from collections.abc import Iterator

from hpcai.record.record import Record, fields
from hpcai.record.result import Result

OLDER = "; null in older results"  # how the description of such a field ends


def missing(result: Result) -> Iterator[str]:
    """Names of the fields that are null in a result of this version."""
    for name, entries in (("tests", result.tests), ("tables", result.tables)):
        for index, entry in enumerate(entries):
            yield from (f"{name}[{index}]{path} is missing" for path in _missing(entry))


def _missing(record: Record) -> Iterator[str]:
    for field in fields(type(record)):
        value = getattr(record, field.name)
        if value is None and field.description.endswith(OLDER) and ":" not in field.description:
            yield f".{field.name}"
        elif isinstance(value, Record):
            yield from (f".{field.name}{path}" for path in _missing(value))
        elif field.several and isinstance(value, tuple):
            found = ((index, path) for index, each in enumerate(value) for path in _missing(each))
            yield from (f".{field.name}[{index}]{path}" for index, path in found)
