"""Printed lines of a record: one for each field with a label, in order of declaration."""

from collections.abc import Iterator

from hpcai.record.record import Field, Record, fields
from hpcai.report.text import score


def labelled(record: Record) -> Iterator[str]:
    """Printed lines of the labelled fields, including those of nested records.

    Nor is one without a value that has no words for its absence.
    """
    for field in fields(type(record)):
        value = getattr(record, field.name)
        if field.label and (field.absent or value is not None):
            yield line(field, value)
        elif isinstance(value, Record):
            yield from labelled(value)


def line(field: Field, value: float | None) -> str:
    """One printed line: label and value / scale, or the reason for a missing value."""
    return score(field.label, None if value is None else value / field.scale, field.absent)
