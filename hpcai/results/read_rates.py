"""Read rates of the loaders: what all ranks loaded, over the time that a rank's loading thread was busy (AIPerf)."""

from typing import NamedTuple

from hpcai.inputfile import Case
from hpcai.record.sample_loading import Loading


class ReadRates(NamedTuple):
    """Samples and bytes per second of all ranks together, by the names of the scores; None if not measured."""

    loaded_per_second: float | None = None
    loaded_bytes_per_second: float | None = None


def read_rates(case: Case, found: Loading | None) -> ReadRates:
    """The rates of a test; none of older results, and of a search without training."""
    if found is None or found.loaded_samples is None or found.loaded_bytes is None or found.load_seconds == 0:
        return ReadRates()
    seconds = found.load_seconds / (case.groups * case.degree)
    return ReadRates(found.loaded_samples / seconds, found.loaded_bytes / seconds)
