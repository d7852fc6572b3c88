"""The entry of a complete test that is a table, from its measurements; checks of its times by a second clock."""

from collections.abc import Sequence
from typing import Any, TypeVar

from hpcai.formulas.clocks import CallTime, of_calls
from hpcai.inputfile import Case
from hpcai.record import entry as records
from hpcai.record.check_declarations import CheckDeclaration
from hpcai.record.record import Verdict
from hpcai.results.entry import clock_checks, entry
from hpcai.results.measured import Measured

Table = TypeVar("Table", bound=records.Table)

CALL_CLOCKS = CheckDeclaration(
    "times of calls by two clocks: deviation",
    "tables on CPUs only: |time of a call - by a second clock| / (0.02 of it; of collectives + 20 us / calls timed at "
    "once); median of the rows",
    limit=1.0,
)


def call_checks(times: Sequence[CallTime]) -> tuple[records.Check, ...]:
    """Check that two clocks agree on the times of the rows; none of GPUs and in older results."""
    return (CALL_CLOCKS.of(of_calls(times)),) if times else ()


def calls_agree(times: Sequence[CallTime]) -> bool:
    """Whether two clocks agree on the times of the rows, where there are two; else no row of the table passes."""
    return all(check.verdict == "PASSED" for check in call_checks(times))


def table(kind: type[Table], case: Case, measured: Measured, verdict: Verdict, **others: Any) -> Table:
    """The entry of a test; `others`: the fields that not every table has."""
    failed = any(check.verdict == "FAILED" for check in clock_checks(measured.wall))
    return entry(kind, case, measured, "FAILED" if failed else verdict, **others)
