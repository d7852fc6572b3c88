"""Count, sum and maximum of durations, in constant memory."""

from msgspec import Struct


class Durations(Struct):
    """How often something was timed, and its seconds, in constant memory."""

    count: int = 0
    total: float = 0.0
    largest: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.count, self.total, self.largest = self.count + 1, self.total + seconds, max(self.largest, seconds)
