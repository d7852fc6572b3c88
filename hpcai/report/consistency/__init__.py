"""What raw measurements owe each other and the input: numbers that nothing is derived from, or that could be traded.

Only claims that every test that PASSED fulfils, on any machine; so a broken one means an altered file.
"""

from collections.abc import Iterator
from typing import Any

from hpcai.inputfile import Case
from hpcai.report.consistency import execution, generated, memory, precision, quality, seconds, staging, times, work

Json = dict[str, Any]

TOPICS = (
    work.settings,
    work.work,
    quality.curve,
    quality.validation,
    quality.members,
    quality.reached,
    work.bags,
    seconds.seconds,
    staging.staging,
    generated.generated,
    precision.precision,
    times.steps,
    times.ranks,
    times.operations,
    execution.execution,
    memory.memory,
)


def contradictions(case: Case, raw: Json) -> Iterator[str]:
    """The claims that the raw measurements of a PASSED test break; none if all hold."""
    for claims in TOPICS:
        for claim, holds in claims(case, raw).items():
            if not holds:
                yield claim
