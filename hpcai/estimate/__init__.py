"""Estimates of a test's memory and time from graph and settings alone, so that --verify can repeat them."""

from hpcai.estimate.liveness import Storage, saved_bytes, step_bytes
from hpcai.estimate.memory import Facts, memory, total
from hpcai.estimate.rank import Rank
from hpcai.estimate.seconds import Rates, seconds

__all__ = [
    "Facts",
    "Rank",
    "Rates",
    "Storage",
    "memory",
    "saved_bytes",
    "seconds",
    "step_bytes",
    "total",
]
