"""Count, sum and maximum of durations, in constant memory."""

from msgspec import Struct


class Durations(Struct):
    """How often something was timed, and its seconds, in constant memory."""

    count: int = 0
    total: float = 0.0
    largest: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.join(Durations(1, seconds, seconds))

    def join(self, other: "Durations") -> None:
        """Count what another has counted."""
        self.count, self.total = self.count + other.count, self.total + other.total
        self.largest = max(self.largest, other.largest)
