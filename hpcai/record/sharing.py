"""Records of a run's tests share their equal parts: a sweep of 10^3 tests holds what differs between them."""

from typing import Any

from msgspec import structs

from hpcai.record.record import Record

LONG = 64  # items; a longer list, such as the series of telemetry, is shared as a whole or not at all


def shared(new: Any, old: Any) -> Any:
    """A value of records, with parts of another one in the place of equal ones; it is written as the same text."""
    if type(new) is not type(old):
        return new
    if isinstance(new, Record):
        return _of_record(new, old)
    if isinstance(new, tuple) and len(new) <= LONG:
        found = tuple(shared(*pair) for pair in zip(new, old, strict=False)) + new[len(old) :]
        return old if len(new) == len(old) and _are(found, old) else found
    if isinstance(new, dict):
        each = {name: shared(value, old.get(name)) for name, value in new.items()}
        return old if [*each] == [*old] and _are(each.values(), old.values()) else each
    return old if new == old and repr(new) == repr(old) else new  # 0.0 is not -0.0


def _of_record(new: Record, old: Record) -> Record:
    names = new.__struct_fields__
    found = {name: shared(getattr(new, name), getattr(old, name)) for name in names}
    same = _are(found.values(), [getattr(old, name) for name in names])
    return old if same else structs.replace(new, **found)


def _are(values: Any, others: Any) -> bool:
    """Whether values are the very objects of others, one by one."""
    return all(one is other for one, other in zip(values, others, strict=True))
