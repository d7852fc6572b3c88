"""What the tests of a workload need of a rank before they begin, beyond what all tests need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hpcai.inputfile import Case
from hpcai.workloads.registry import optional_part

Piece = Callable[[], object]


def _no_check(case: Case, dataset: Any) -> None:
    """Nothing more to check."""


def _never(case: Case, device: torch.device) -> str:
    return ""


def _nothing_late(device: torch.device, compiled: bool, custom: bool) -> Sequence[Piece]:
    """Nothing is loaded late."""
    return ()


@dataclass(frozen=True)
class Preconditions:
    """The preconditions of a workload's tests; its folder may declare them as preflight.PRECONDITIONS.

    check: raises HpcaiError if a case cannot be run on its data, which are None where it trains nothing. refusal: why
    this rank's device, compilers or libraries cannot run a case; empty if they can. pieces: tiny work that loads
    libraries and compiles kernels, so that they are there before memory is measured, in pieces that may be done in any
    order; custom kernels only where they may be compiled (second argument), those of KERNELS only where a
    test trains by them (third).
    """

    check: Callable[[Case, Any], None] = _no_check
    refusal: Callable[[Case, torch.device], str] = _never
    pieces: Callable[[torch.device, bool, bool], Sequence[Piece]] = _nothing_late


def preconditions(section: str) -> Preconditions:
    """Those of a workload."""
    part = optional_part(section, "preflight")
    found: Preconditions = part.PRECONDITIONS if part else Preconditions()
    return found
