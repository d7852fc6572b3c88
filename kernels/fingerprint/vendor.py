"""Elements and fingerprints of tensors by torch's operators, on any device and without waiting for it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import FACTORS, LEAST, SHIFTS


def gather(runs: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """Copy runs of elements of any type into parts of a float64 tensor, each of its run's length."""
    torch._foreach_copy_(list(out), list(runs))


def factors(device: torch.device) -> Tensor:
    """FACTORS on a device: int64[ELEMENTS], the bits of unsigned numbers."""
    return torch.from_numpy(FACTORS.view("int64").copy()).to(device)


def fingerprints(elements: Tensor, smallest: Tensor, factors: Tensor, out: Tensor) -> None:
    """Fill int64 out[tensors], the bits of unsigned numbers, from float64 elements[tensors, ELEMENTS].

    Elements beyond a tensor's last must be 0; smallest: normal numbers of the types.
    """
    sizes = elements.abs()
    known = sizes.isfinite().all(1) & ((sizes >= smallest[:, None]).sum(1) >= LEAST)
    words = elements.view(torch.int64)
    mixed = words ^ words >> SHIFTS[0] ^ words >> SHIFTS[1]
    out.copy_(((mixed * factors).sum(1) | 1) * known)
