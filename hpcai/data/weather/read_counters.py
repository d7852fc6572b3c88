"""Counters of the cost of reading, shared by all reading threads: bytes, and seconds by kind of work."""

from threading import Lock


class ReadCounters:
    """Counters of one split; seconds are summed over the threads and may exceed the elapsed time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bytes = 0
        self._reading = self._decompressing = 0.0

    def add(self, nbytes: int, reading: float, decompressing: float = 0.0) -> None:
        """Add stored bytes, and the seconds of reading and decompressing them."""
        with self._lock:
            self._bytes += nbytes
            self._reading += reading
            self._decompressing += decompressing

    def measured(self) -> dict[str, float]:
        """The sums so far: bytes_read, read_seconds, decompress_seconds."""
        with self._lock:
            return {
                "bytes_read": self._bytes,
                "read_seconds": self._reading,
                "decompress_seconds": self._decompressing,
            }
