"""Preconditions of language models: libraries that a first step loads, and the machine code of custom kernels."""

from collections.abc import Callable
from functools import partial

import torch

from hpcai import networks
from hpcai.models.module import Layers, build
from hpcai.preflight.library_loading import leave
from hpcai.preflight.preconditions import Piece, Preconditions
from hpcai.train.providers import use_custom

PLACES = 8


def _pieces(device: torch.device, compiled: bool, custom: bool) -> list[Piece]:
    """A step of the smallest network, by the vendor's kernels, and by custom ones where a test trains by them."""
    return [partial(_step, device, choose) for choose in (leave, *([use_custom] if compiled and custom else ()))]


def _step(device: torch.device, choose: Callable[[Layers], None]) -> None:
    module = build(networks.build("decoder2x64", (1, PLACES), 1, 2), 0).to(device)
    choose(module)
    module(torch.zeros(1, 1, 1, PLACES, device=device)).sum().backward()


PRECONDITIONS = Preconditions(pieces=_pieces)
