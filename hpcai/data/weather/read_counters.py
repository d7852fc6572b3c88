"""What reading costs, added up by all threads that read: bytes, and the seconds of each kind of work."""

from threading import Lock


class ReadCounters:
    """Counts of one split; seconds are summed over the threads, so they may exceed those of the clock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bytes = 0
        self._reading = self._decompressing = 0.0

    def add(self, nbytes: int, reading: float, decompressing: float = 0.0) -> None:
        """Bytes as they lie in the file, and the seconds that reading and decompressing them took."""
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
