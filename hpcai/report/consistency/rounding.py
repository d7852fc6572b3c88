"""Comparisons of seconds that many clock readings were added up to, and the sum that bounds them."""

from typing import Any

Json = dict[str, Any]

SLACK = 1e-6  # seconds and share: sums of many clock readings, added up in different orders


def within(most: float, total: float, count: int) -> bool:
    return at_most(most, total) and at_most(total, most * count)


def at_most(one: float, other: float) -> bool:
    """one <= other, but for rounding."""
    return one <= other + SLACK * max(1.0, abs(other))


def elapsed(raw: Json) -> float:
    return float(raw["phases"]["training"] + raw["phases"]["validation"])
