"""An integer in a field that is declared float is stored as a float, so that a result computed again has its digest."""

import json
from typing import Any

import pytest
from examples import comm, ensemble, kernels, nas, weather
from msgspec import structs
from small_run import golden

from hpcai.record.loading import result_of
from hpcai.record.plain import checked, plain, text
from hpcai.record.record import Record
from hpcai.results.assembly import broken_off, enter
from hpcai.results.claim import Subject
from hpcai.results.measured import Measured
from hpcai.results.summary import sealed

WORKLOADS = (ensemble, weather, nas, kernels, comm)
ENDED = [subject for module in WORKLOADS for subject in module.EXAMPLES.values()]
STOPPED = [subject for module in (ensemble, weather, nas) for subject in module.STOPPED_EXAMPLES.values()]
HEAD = structs.replace(result_of(golden()), tests=(), summary=None, digest=None)


def name(subject: Subject) -> str:
    return subject.case.workload


def whole(value: Any) -> Any:
    """The value with integers in place of its floats, as a measuring function may leave them in a record."""
    if isinstance(value, Record):
        return structs.replace(value, **{field: whole(part) for field, part in structs.asdict(value).items()})
    if isinstance(value, dict):
        return {key: whole(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(whole, value))
    return max(1, round(value)) if isinstance(value, float) else value


def measured_of(subject: Subject) -> Measured:
    entry = subject.entry
    return Measured(whole(entry.raw), whole(entry.memory), whole(entry.telemetry))


@pytest.mark.parametrize("subject", ENDED, ids=name)
def test_integers_in_measurements_are_stored_as_floats(subject: Subject) -> None:
    measured = measured_of(subject)
    planted, (made, entry) = text(measured.raw), enter(HEAD, subject.case, measured)
    assert text(entry.raw) != planted and json.loads(text(entry.raw)) == json.loads(planted)
    again, same = enter(HEAD, subject.case, Measured(entry.raw, entry.memory, entry.telemetry))
    assert text(entry) == text(same) == text(checked(entry))
    assert sealed(made, 1).digest == sealed(again, 1).digest


@pytest.mark.parametrize("subject", STOPPED, ids=name)
def test_integers_of_a_test_that_was_broken_off_are_stored_as_floats(subject: Subject) -> None:
    raw = whole(subject.entry)
    kept = broken_off(subject.case, "SIGTERM on rank 1", raw)
    assert text(kept.raw) == text(checked(raw)) != text(raw)
    made = plain(sealed(structs.replace(HEAD, broken_off=kept), 1))
    assert sealed(result_of(made), 1).digest == made["digest"]
