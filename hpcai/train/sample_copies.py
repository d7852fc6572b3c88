"""Copies of a few samples of a pass, as they arrive at the network, and a sum over the contents of all of them.

In the timed region only copies into memory of the device, and nothing waits for them.
"""

from dataclasses import dataclass
from random import SystemRandom

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NBYTES = 2 << 20  # of all copies of a pass
MOST = 16  # samples of a pass
_MODULUS = 1 << 63
_FACTORS = (0x5851F42D4C957F2D, 0x2545F4914F6CDD1D)  # of 64-bit generators by Knuth, and by Vigna


@dataclass(frozen=True, eq=False)
class Copied:
    """A copied sample: step and place in the batch; rows of x float32[C, rows, W] from row `top` on; y whole.

    x and y are None of a sample that did not arrive.
    """

    step: int
    place: int
    top: int = 0
    x: NDArray[np.float32] | None = None
    y: NDArray[np.generic] | None = None


class SampleCopies:
    """Memory for the copies of a pass. The samples are drawn from the system's entropy, on each rank by itself."""

    def __init__(self) -> None:
        self._random = SystemRandom()
        self._drawn: list[Copied] = []
        self._by_step: dict[int, list[int]] = {}
        self._arrived: set[int] = set()
        self._x = self._y = torch.empty(0)

    def allocate(self, x: Tensor, y: Tensor) -> None:
        """Make the memory, for batches like x and y, unless it is there; outside the timed region."""
        if len(self._x):
            return
        _, channels, height, width = x.shape
        row = channels * width * x.element_size()
        count = max(1, min(MOST, NBYTES // (row * height)))
        rows = max(1, min(height, NBYTES // (row * count)))
        shape = (count, channels, rows, width)
        self._x = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        self._y = torch.empty((count, *y.shape[1:]), dtype=y.dtype, device=y.device)
        self._height = height

    @property
    def steps(self) -> set[int]:
        """The steps of which a sample is copied."""
        return {*self._by_step}

    def begin(self, first: int, samples: int, batch: int) -> None:
        """Draw samples among the numbers first x batch ... samples - 1 of a pass in steps of `batch`."""
        self._by_step, self._drawn, self._arrived = {}, [], set()
        if not len(self._x) or first * batch >= samples:
            return
        for slot in range(len(self._x)):
            step, place = divmod(self._random.randrange(first * batch, samples), batch)
            top = self._random.randrange(self._height - self._x.shape[2] + 1)
            self._drawn.append(Copied(step, place, top))
            self._by_step.setdefault(step, []).append(slot)

    def note(self, step: int, x: Tensor, y: Tensor) -> None:
        """Copy the drawn samples of a batch; no synchronisation."""
        for slot in self._by_step.get(step, ()):
            place, top = self._drawn[slot].place, self._drawn[slot].top
            if place < len(x):
                self._x[slot].copy_(x[place, :, top : top + self._x.shape[2]])
                self._y[slot].copy_(y[place])
                self._arrived.add(slot)

    def taken(self) -> list[Copied]:
        """The drawn samples of the pass, on the host. Synchronises with the device."""
        if not self._drawn:
            return []
        x, y = self._x.cpu().numpy(), self._y.cpu().numpy()
        return [
            Copied(one.step, one.place, one.top, x[slot].copy(), y[slot].copy()) if slot in self._arrived else one
            for slot, one in enumerate(self._drawn)
        ]


class ContentSum:
    """Sum over the samples of a pass of a hash of pixels and labels, whatever their order; exact integers.

    A pixel's bits count with a weight by its place, so that a mirrored or shifted image has another sum.
    """

    def __init__(self) -> None:
        self._total = torch.zeros((), dtype=torch.int64)
        self._weights = torch.empty(0, dtype=torch.int32)

    def begin(self) -> None:
        """A pass begins."""
        self._total = torch.zeros_like(self._total)

    def note(self, x: Tensor, y: Tensor) -> None:
        """Add a batch x float32[n, C, H, W] and y, on their device; no synchronisation."""
        self._total = self._total.to(x.device)
        mixed = self._weighted(x.permute(0, 2, 3, 1)) * _FACTORS[0] + self._weighted(y)
        self._total += ((mixed ^ mixed >> 29) * _FACTORS[1]).sum()

    def _weighted(self, values: Tensor) -> Tensor:
        """int64[n]: for each sample the sum of its words' bits times their weights, modulo 2^32 each."""
        if values.dim() == 1:
            return values.to(torch.int64)
        words = values.contiguous().view(torch.int32).flatten(1)
        if len(self._weights) < words.shape[1] or self._weights.device != words.device:
            places = torch.arange(words.shape[1], dtype=torch.int32, device=words.device)
            self._weights = (places * 0x19660D) | 1
        return (words * self._weights[: words.shape[1]]).sum(1, dtype=torch.int64)

    def value(self) -> int:
        """The sum modulo 2^63. Synchronises with the device."""
        return int(self._total) % _MODULUS
