"""What was sampled while a test ran owes itself, the test and the machine."""

from itertools import pairwise
from math import isclose
from typing import Any

from hpcai.inputfile import Case
from hpcai.machine.node_sensors import NAMES, SHARES
from hpcai.machine.telemetry import KEPT, LEAST, means
from hpcai.report.consistency.rounding import SLACK, at_most

Json = dict[str, Any]
Numbers = list[float | None]

FIRST_OF_GPUS = NAMES.index("gpus")  # and all behind it


def telemetry(case: Case, raw: Json) -> dict[str, bool]:
    """Results need not have it: another system tells nothing."""
    seen = raw.get("telemetry")
    if seen is None:
        return {}
    return {
        "telemetry: only where TELEMETRY > 0": case["TELEMETRY"] > 0,
        "telemetry: 0 <= averages <= maxima": all(map(_ordered, _of(seen, "average"), _of(seen, "maximum"))),
        "telemetry: energy >= 0, of the power": _energy(seen),
        "telemetry: shares <= 1": all((seen["maximum"][name] or 0) <= 1 for name in SHARES),
        **_series(case, raw, seen["series"]),
        **_one_node(seen),
    }


def _energy(seen: Json) -> bool:
    """Power over the time of the series, which is that of rank 0's node."""
    joules, watts = seen.get("gpu_joules"), seen.get("gpu_watts")
    if joules is None or watts is None:
        return joules is watts
    return bool(seen["series"]) and joules >= 0 and isclose(joules, watts * seen["series"][-1][0], rel_tol=1e-6)


def _of(seen: Json, member: str) -> Numbers:
    return [seen[member][name] for name in NAMES]


def _ordered(average: float | None, most: float | None) -> bool:
    """Both are there, or none."""
    if average is None or most is None:
        return average is most
    return average >= 0 and at_most(average, most)


def _series(case: Case, raw: Json, rows: list[Numbers]) -> dict[str, bool]:
    seen = raw["telemetry"]
    ends = [0.0, *(row[0] or 0.0 for row in rows)]
    spans = [end - begin for begin, end in pairwise(ends)]
    whole = seen["samples"] == len(rows)  # no neighbours were joined
    longest, mean = max(spans, default=0.0), ends[-1] / max(1, seen["samples"])
    return {
        "telemetry: time goes on in the series": all(span > 0 for span in spans),
        "telemetry: samples, of the series": whole or seen["samples"] > len(rows) == KEPT,
        "telemetry: the interval, of the series": at_most(mean, seen["interval"] + 1e-3)
        and (isclose(seen["interval"], longest, abs_tol=SLACK) if whole else at_most(seen["interval"], longest)),
        "telemetry: the series within the maxima": all(
            map(_within, zip(*(row[1:] for row in rows), strict=True), _of(seen, "maximum"))
        ),
        "telemetry: the series spans what is timed": at_most(_timed(raw), ends[-1] + LEAST),
    }


def _timed(raw: Json) -> float:
    """Seconds that a test says it took: of a training, or of a whole search; of a table nothing."""
    return float(raw["seconds"] if "trials" in raw else raw.get("phases", {}).get("training", 0.0))


def _within(values: tuple[float | None, ...], most: float | None) -> bool:
    return most is None or all(value is not None and 0 <= value <= most for value in values)


def _one_node(seen: Json) -> dict[str, bool]:
    """Of one node the averages follow from the series, and the maxima unless neighbours were joined."""
    rows = seen["series"]
    own = zip(means(rows), _of(seen, "average"), strict=True)
    highest = [max((row[column] or 0 for row in rows), default=None) for column in range(1, len(NAMES) + 1)]
    maxima = zip(highest, _of(seen, "maximum"), strict=True)
    several, whole = seen["nodes"] > 1, seen["samples"] == len(rows)
    return {
        "telemetry: one node: averages of its series": several or all(_alike(one, other) for one, other in own),
        "telemetry: one node: maxima of its series": several
        or not whole
        or all(most is None or most == one for one, most in maxima),
    }


def _alike(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=1e-12)


def of_machine(raw: Json, environment: Json) -> dict[str, bool]:
    """The nodes, their memory, and whether there is a GPU to tell of."""
    seen = raw.get("telemetry")
    if seen is None:
        return {}
    nodes, installed = environment["nodes"], environment["memory_bytes"]
    accelerated = environment["accelerators"] > 0
    found = [_of(seen, "average"), _of(seen, "maximum"), *(row[1:] for row in seen["series"])]
    told = any(value is not None for values in found for value in values[FIRST_OF_GPUS:])
    return {
        "telemetry: nodes of the job": seen["nodes"] == nodes,
        "telemetry: memory that a node has": nodes > 1 or (seen["maximum"]["memory_bytes"] or 0) <= installed,
        "telemetry: of GPUs only where there are some": accelerated
        or not (told or "gpu_joules" in seen),
    }
