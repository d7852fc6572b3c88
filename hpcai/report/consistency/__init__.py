"""What raw measurements owe each other and the input: numbers that nothing is derived from, or that could be traded.

Only claims that every test that PASSED fulfils, on any machine; so a broken one means an altered file.
"""

from collections.abc import Iterator
from typing import Any

from hpcai.inputfile import Case
from hpcai.report.consistency import (
    beside,
    choice,
    dataset,
    execution,
    findings,
    memory,
    precision,
    quality,
    search,
    seconds,
    staging,
    telemetry,
    times,
    trials,
    work,
)
from hpcai.report.consistency.broken import broken_off
from hpcai.report.consistency.machine import machine
from hpcai.report.consistency.tables import contradictions_of_table

__all__ = ["broken_off", "contradictions", "contradictions_of_table", "machine"]

Json = dict[str, Any]

# Others work with the numbers of samples, whatever these are, or with the ids of trials.
FIRST = {"ensemble": (dataset.dataset,), "weather": (dataset.dataset,), "nas": (dataset.dataset, search.identities)}
WORK = (work.settings, work.work)
TRAINING = (
    quality.reached,
    work.bags,
    seconds.seconds,
    staging.staging,
    beside.beside,
    choice.choice,
    precision.precision,
    times.steps,
    times.ranks,
    times.operations,
    execution.execution,
)
ENSEMBLE = (
    *WORK,
    quality.curve,
    quality.validation,
    quality.members,
    *TRAINING,
    memory.memory,
    telemetry.telemetry,
)
WEATHER = (
    *WORK,
    findings.curve,
    findings.ensemble,
    findings.members,
    *TRAINING,
    memory.used,
    findings.memory,
    findings.loading,
    telemetry.telemetry,
)
SEARCH = (
    search.settings,
    trials.trials,
    search.sums,
    search.seconds,
    search.ending,
    search.coordinator,
    search.memory,
    telemetry.telemetry,
    staging.staging,
    beside.beside,
)
TOPICS = {"ensemble": ENSEMBLE, "weather": WEATHER, "nas": SEARCH}


def contradictions(case: Case, raw: Json) -> Iterator[str]:
    """The claims that the raw measurements of a PASSED test break; none if all hold."""
    for topics in (FIRST[case.workload], TOPICS[case.workload]):
        broken = [claim for claims in topics for claim, holds in claims(case, raw).items() if not holds]
        yield from broken
        if broken:
            return
