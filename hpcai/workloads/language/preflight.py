"""Preconditions of language models: libraries that a first step loads, and the machine code of custom kernels."""

from functools import partial

import torch

from hpcai.preflight.library_loading import run_pass
from hpcai.preflight.preconditions import Piece, Preconditions

NETWORK, PLACES = "decoder2x64", 8


def _pieces(device: torch.device, compiled: bool, custom: bool) -> list[Piece]:
    """A pass of the smallest network, by the vendor's kernels, and by custom ones where a test trains by them."""
    own = (False, True) if compiled and custom else (False,)
    return [partial(run_pass, NETWORK, (1, PLACES), device, custom=each) for each in own]


PRECONDITIONS = Preconditions(pieces=_pieces)
