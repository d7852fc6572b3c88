"""Lines of the report about the memory of a rank."""

from collections.abc import Iterator

from hpcai.record.machine import MIB, Memory
from hpcai.report.lines import labelled
from hpcai.report.text import score


def lines(used: Memory) -> Iterator[str]:
    """Memory of the rank that used most."""
    yield from labelled(used)
    if used.accelerated:
        yield score("peak memory of a rank's GPU, MiB", used.device_peak_bytes / MIB)


def notes(used: Memory) -> Iterator[str]:
    """Note on a peak that includes earlier tests."""
    if used.whole_run:
        yield "Memory  : the peak is that of the run so far: this system cannot reset it"
