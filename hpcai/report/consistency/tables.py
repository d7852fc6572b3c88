"""What the raw measurements of a table owe the input and the machine: those of its kind, and its ranks' memory."""

from collections.abc import Callable, Iterator
from typing import Any

from hpcai.inputfile import Case
from hpcai.report.consistency import collectives, kernels, telemetry

Json = dict[str, Any]

KINDS: dict[str, Callable[[Case, Json, Json], Iterator[str]]] = {"kernels": kernels.claims, "comm": collectives.claims}


def contradictions_of_table(case: Case, raw: Json, environment: Json) -> Iterator[str]:
    """The claims that the raw measurements of a table that PASSED break; none if all hold."""
    yield from KINDS[case.workload](case, raw, environment)
    owed = {**_memory(raw["memory"], environment), **telemetry.telemetry(case, raw)}
    owed |= telemetry.of_machine(raw, environment)
    yield from (claim for claim, holds in owed.items() if not holds)


def _memory(used: Json, environment: Json) -> dict[str, bool]:
    return {
        "memory: accelerated if, and only if, there are GPUs": used["accelerated"] == (environment["accelerators"] > 0),
        "memory: device_peak_bytes only where accelerated": used["accelerated"] or used["device_peak_bytes"] == 0,
        "memory: 0 < baseline_bytes": used["baseline_bytes"] > 0,
        "memory: peak_bytes > 0": used["peak_bytes"] > 0,
        "memory: baseline_bytes < planned_bytes": used["accelerated"] or used["baseline_bytes"] < used["planned_bytes"],
    }
