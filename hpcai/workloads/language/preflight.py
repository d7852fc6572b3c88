"""Preconditions of language models: libraries that a first step loads, and the machine code of custom kernels."""

import torch

from hpcai import networks
from hpcai.models.module import build
from hpcai.preflight.preconditions import Preconditions
from hpcai.train.providers import use_custom

PLACES = 8


def _load(device: torch.device, compiled: bool, custom: bool) -> None:
    """Run a pass of the smallest network, by the vendor's kernels, and by custom ones where a test trains by them."""
    module = build(networks.build("decoder2x64", (1, PLACES), 1, 2), 0).to(device)
    for _ in range(1 + (compiled and custom)):
        module(torch.zeros(1, 1, 1, PLACES, device=device)).sum().backward()
        use_custom(module)


PRECONDITIONS = Preconditions(load=_load)
