"""Requirements of a workload's tests on a rank: memory by purpose, seconds by phase, steps; without MPI."""

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
    """Estimators of the requirements of a workload's tests; its folder declares them as plan.REQUIREMENTS.

    memory: bytes of a rank by purpose. seconds: by phase, with several ranks on a processor. cure: change that reduces
    memory, as text. steps: of a model, None for tests without steps. purposes: explanations of the purposes of
    `memory`.
    """

    memory: Callable[[Case, torch.device, Rank], Bytes]
    seconds: Callable[[Case, torch.device, Rank, float], Seconds]
    cure: Callable[[Case], str]
    steps: Callable[[Case], int | None] = lambda case: None
    purposes: Mapping[str, str] = field(default_factory=dict)


def requirements(section: str) -> Requirements:
    """The requirements of a workload."""
    found: Requirements = part(section, "plan").REQUIREMENTS
    return found


def shared(taken: Mapping[str, float], ranks: float) -> Seconds:
    """Seconds by phase with several ranks on a processor."""
    return {phase: value * ranks for phase, value in taken.items()}
