"""The entry of a complete test in a result, from its measurements."""

from typing import Any, TypeVar

from hpcai.formulas.clocks import deviation
from hpcai.inputfile import Case
from hpcai.record import entry as records
from hpcai.record.check_declarations import TEST_CLOCKS
from hpcai.record.record import Verdict
from hpcai.record.wall_time import WallTime
from hpcai.results.measured import Measured

Entry = TypeVar("Entry", bound=records.Entry)


def clock_checks(wall: WallTime | None) -> tuple[records.Check, ...]:
    """Check that two clocks agree on the time of the test; none in older results."""
    return (TEST_CLOCKS.of(deviation(wall.seconds, wall.second_clock)),) if wall else ()


def entry(kind: type[Entry], case: Case, measured: Measured, verdict: Verdict, **others: Any) -> Entry:
    """The entry of a test; `others`: the fields that not every entry has."""
    return kind(
        index=case.index,
        workload=case.workload,
        settings=dict(case.settings),
        memory=measured.memory,
        telemetry=measured.telemetry,
        wall=measured.wall,
        raw=measured.raw,
        verdict=verdict,
        **others,
    )
