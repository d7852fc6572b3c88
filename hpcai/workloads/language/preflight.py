"""Preconditions of language models: vendor kernels, and libraries that a first step loads."""

import torch

from hpcai import networks
from hpcai.inputfile import Case
from hpcai.kernels.providers import VENDOR
from hpcai.models.module import build
from hpcai.preflight.preconditions import Preconditions

PLACES = 8


def _refusal(case: Case, device: torch.device) -> str:
    if case.kernels != VENDOR:
        return f"KERNELS {case.kernels} with attention and RMS norm: no custom kernels compute these; allowed: vendor"
    return ""


def _load(device: torch.device, compiled: bool) -> None:
    """Run a pass of the smallest network."""
    module = build(networks.build("decoder2x64", (1, PLACES), 1, 2), 0).to(device)
    module(torch.zeros(1, 1, 1, PLACES, device=device)).sum().backward()


PRECONDITIONS = Preconditions(refusal=_refusal, load=_load)
