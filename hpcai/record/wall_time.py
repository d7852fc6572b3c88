"""Records of the time of a whole test, by two clocks and by its phases."""

from typing import Annotated

from hpcai.record.record import Record, Seconds, about


class WallTime(Record, kw_only=True):
    """Time of a whole test by two clocks, of the rank on which they differ most."""

    seconds: Annotated[Seconds, about("by the clock of all reported times", unit="s", label="wall time, s")]
    second_clock: Annotated[
        Seconds, about("by a second, independent clock", unit="s", label="wall time by a second clock, s")
    ]


class Accounting(Record, kw_only=True):
    """Phases of a test and the time between them, of the rank on which they differ most from the second clock."""

    wall: Annotated[Seconds, about("from the first phase to the end of the last, by the second clock", unit="s")]
    phases: Annotated[Seconds, about("sum of the phases", unit="s")]
    between: Annotated[Seconds, about("between phases: waits for other ranks, records", unit="s")]


AccountingOfTest = Annotated[Accounting | None, about("phases of the test; null in older results")]
