"""Printed lines of a record: one for each field that has a label, in the order in which the fields are declared."""

from collections.abc import Iterator

from hpcai.record.record import Field, Record, fields
from hpcai.report.text import score


def labelled(record: Record) -> Iterator[str]:
    """A line for each labelled field, records within it included; a field without a label is not printed.

    Nor is one without a value that has no words for its absence.
    """
    for field in fields(type(record)):
        value = getattr(record, field.name)
        if field.label and (field.absent or value is not None):
            yield line(field, value)
        elif isinstance(value, Record):
            yield from labelled(value)


def line(field: Field, value: float | None) -> str:
    """One printed line: label and value / scale, or why there is no value."""
    return score(field.label, None if value is None else value / field.scale, field.absent)
