"""Memory and time of a test before it runs: from the graph and the settings alone, so that --verify can do it again."""

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
