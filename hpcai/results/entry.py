"""The entry of a complete test in a result, from its measurements."""

from typing import Any, TypeVar

from hpcai.inputfile import Case
from hpcai.record import entry as records
from hpcai.record.record import Verdict
from hpcai.results.measured import Measured

Entry = TypeVar("Entry", bound=records.Entry)


def entry(kind: type[Entry], case: Case, measured: Measured, verdict: Verdict, **others: Any) -> Entry:
    """The entry of a test; `others`: the fields that not every entry has."""
    return kind(
        index=case.index,
        workload=case.workload,
        settings=dict(case.settings),
        memory=measured.memory,
        telemetry=measured.telemetry,
        raw=measured.raw,
        verdict=verdict,
        **others,
    )
