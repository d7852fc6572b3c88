"""Printed lines of the energy of a test's timed region."""

from collections.abc import Iterator

from hpcai.record.energy import Energy, Source
from hpcai.report.lines import labelled
from hpcai.report.text import counted, free
from hpcai.results.energy import mean_watts, unscored

NAMES: dict[Source, str] = {
    "nvml": "NVML",
    "rapl": "RAPL",
    "pm_counters": "pm_counters",
    "fixed": "fixed watts of ENERGY",
    "meter": "the meter of ENERGY",
}


def lines(found: Energy | None) -> Iterator[str]:
    """Joules of the timed region."""
    if found:
        yield from labelled(found)


def note(found: Energy | None) -> str:
    """Energy, mean power, source, what it covers, and why there are no scores."""
    missing = free(unscored(found))
    if found is None or found.joules is None or found.source is None:
        return f"Energy  : n/a, {missing}"
    watts, part = mean_watts(found), "" if found.covers == "node" else f"the {found.covers} of "
    text = (
        f"Energy  : {found.joules:.3f} J in {found.seconds:.3f} s, {watts or 0.0:.1f} W on average, "
        f"of {part}{counted(found.nodes, 'node')}, by {NAMES[found.source]}"
    )
    return f"{text}; scores n/a: {missing}" if missing else text
