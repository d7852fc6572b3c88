"""What the tests of a workload need of a rank, without MPI: memory by purpose, seconds by phase, steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from hpcai.estimate import Rank
from hpcai.inputfile import Case
from hpcai.workloads.registry import part

Bytes = dict[str, int]
Seconds = dict[str, float]


@dataclass(frozen=True)
class Requirements:
    """How the requirements of a workload's tests are estimated; its folder declares them as plan.REQUIREMENTS.

    memory: bytes of a rank by purpose. seconds: by phase, where so many ranks share a processor. cure: what takes less
    memory, in words. steps: of a model, None for tests without steps. purposes: what the purposes of `memory` mean, in
    words.
    """

    memory: Callable[[Case, torch.device, Rank], Bytes]
    seconds: Callable[[Case, torch.device, Rank, float], Seconds]
    cure: Callable[[Case], str]
    steps: Callable[[Case], int | None] = lambda case: None
    purposes: Mapping[str, str] = field(default_factory=dict)


def requirements(section: str) -> Requirements:
    """Those of a workload."""
    found: Requirements = part(section, "plan").REQUIREMENTS
    return found


def shared(taken: Mapping[str, float], ranks: float) -> Seconds:
    """Seconds by phase where so many ranks share a processor."""
    return {phase: value * ranks for phase, value in taken.items()}
