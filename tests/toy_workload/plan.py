"""Memory and time of a test of `[toy]` before it runs."""

import torch

from hpcai.estimate import Rank
from hpcai.inputfile import Case
from hpcai.plan.requirements import Bytes, Requirements, Seconds, shared

POINT = 2 * 8 * 3  # bytes: two coordinates, drawn, squared and added
SPEED = 2e7  # points a second, about
OTHER = 2**24  # bytes


def _memory(case: Case, device: torch.device, rank: Rank) -> Bytes:
    return {"points": POINT * case["POINTS"], "other": OTHER}


def _seconds(case: Case, device: torch.device, rank: Rank, ranks: float) -> Seconds:
    return shared({"points": case["POINTS"] / SPEED}, ranks)


REQUIREMENTS = Requirements(
    _memory,
    _seconds,
    cure=lambda case: "fewer POINTS need less",
    purposes={"points": "coordinates of the points", "other": "small objects"},
)
