"""Preconditions of ensembles of classifiers: compiled custom kernels, where a test trains by them."""

import torch

from hpcai.preflight.library_loading import custom_convolutions
from hpcai.preflight.preconditions import Piece, Preconditions


def _pieces(device: torch.device, compiled: bool, custom: bool) -> list[Piece]:
    return custom_convolutions(device) if compiled and custom else []


PRECONDITIONS = Preconditions(pieces=_pieces)
