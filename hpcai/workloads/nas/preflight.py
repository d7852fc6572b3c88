"""Preconditions of a search: a limit, and the compiled edit distance."""

from typing import Any

import torch

from hpcai import networks
from hpcai.errors import InputError
from hpcai.inputfile import Case
from hpcai.preflight.library_loading import custom_convolutions
from hpcai.preflight.preconditions import Piece, Preconditions

ENDS = ("TRIALS", "ROUNDS", "DURATION", "WINDOW")  # a recorded search ends with its trials as well
SIDE = 8  # pixels


def _check(case: Case, dataset: Any) -> None:
    if not any(case[limit] for limit in ENDS) and not case.recording:
        raise InputError(f"a search that never ends; allowed: one of {', '.join(ENDS)} above 0")


def _pieces(device: torch.device, compiled: bool, custom: bool) -> list[Piece]:
    """Compile the edit distance of networks, which only searches need, and custom kernels to train by."""
    return [_measure_distance, *(custom_convolutions(device) if compiled and custom else [])]


def _measure_distance() -> None:
    from hpcai.search.edit_distance import distances, features, packed

    known = features(networks.build("resnet8", (SIDE, SIDE), 1, 2))
    distances(known, packed([known]))


PRECONDITIONS = Preconditions(check=_check, pieces=_pieces)
