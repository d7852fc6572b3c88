"""Counters of what a loader made ready: samples, bytes, and the seconds of its loading thread."""

from hpcai.clock import now


class LoadCounters:
    """Counters of one loader; the loading thread alone adds to them."""

    def __init__(self) -> None:
        self.samples = self.nbytes = 0
        self.seconds = 0.0

    def add(self, samples: int, started: float) -> None:
        """Add a batch whose loading began at `started`."""
        self.samples += samples
        self.seconds += now() - started

    def measured(self) -> dict[str, float]:
        """The sums so far, by the names of the record `Loading`."""
        return {"loaded_samples": self.samples, "loaded_bytes": self.nbytes, "load_seconds": self.seconds}
