"""Random resized crops with mirroring for training, and the centre crop for evaluation.

A training crop is a pure function of (seed, member, epoch, position in the epoch): it does not depend on the rank, and
each draw of a bootstrap has its own. Source: Szegedy et al., "Going deeper with convolutions", CVPR 2015, section 6,
for the sizes; the bounds and the ten attempts are those of the reference results of the field.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import numpy.typing as npt

from hpcai.data.order import Shard
from hpcai.data.philox import Integers, Purpose, stream, uniform64

Boxes = npt.NDArray[np.int32]  # [n, 5]: top, left, height, width in pixels; 1 where mirrored, else 0

LEAST_AREA = 0.08
WIDEST = Decimal(4) / 3  # width over height; its inverse is the narrowest
ATTEMPTS = 10
_PLACE, _MIRROR = ATTEMPTS, ATTEMPTS + 1  # parts of the stream, after those of the attempts
_RATIOS = 4096
_BLOCK = 8192  # positions computed at a time, many steps of a small batch
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Crops:
    """Crops of square images of `side` pixels.

    evaluated: side of the centre crop for evaluation, and of the delivered images unless RESOLUTION says otherwise.
    """

    side: int
    evaluated: int

    def evaluation(self, n: int) -> Boxes:
        """The centre crop, n times."""
        start = (self.side - self.evaluated) // 2
        return np.tile(np.array([start, start, self.evaluated, self.evaluated, 0], np.int32), (n, 1))

    def of_epoch(self, seed: int, member: int, epoch: int, shard: Shard, start: int, stop: int) -> Iterator[Boxes]:
        """Training crops of the steps start … stop - 1 of one rank's epoch, ordered as `order.training_indices`."""
        at_once = max(1, _BLOCK // shard.batch)
        for step in range(start, stop, at_once):
            boxes = self.training(seed, member, epoch * shard.n + shard.positions(step, min(step + at_once, stop)))
            yield from np.split(boxes, range(shard.batch, len(boxes), shard.batch))

    def training(self, seed: int, member: int, draws: Integers) -> Boxes:
        """Training crops of a member's draws (int64), numbered through all epochs."""
        sizes = self._sizes(seed, member, draws)
        drawn = uniform64(seed, stream(Purpose.CROPS, member, _PLACE), draws)
        room = (self.side - sizes + 1).astype(np.uint64)
        places = np.stack([drawn >> _HALF, drawn & _LOW], 1) * room >> _HALF
        mirrored = uniform64(seed, stream(Purpose.CROPS, member, _MIRROR), draws) >> np.uint64(63)
        return np.column_stack([places, sizes, mirrored]).astype(np.int32)

    def _sizes(self, seed: int, member: int, draws: Integers) -> Integers:
        """Height and width, int64[n, 2]: of the first attempt that fits, else of the whole image."""
        sizes = np.full((len(draws), 2), self.side, np.int64)
        open_ = np.arange(len(draws))
        for attempt in range(ATTEMPTS):
            drawn = uniform64(seed, stream(Purpose.CROPS, member, attempt), draws[open_])
            edge = self.side * np.sqrt(LEAST_AREA + (1 - LEAST_AREA) * ((drawn >> _HALF) / 2**32))
            ratio = ((drawn & _LOW) * np.uint64(_RATIOS) >> _HALF).astype(np.int64)
            attempted = np.rint(edge[:, None] * _roots()[np.stack([_RATIOS - 1 - ratio, ratio], 1)]).astype(np.int64)
            fits = (attempted <= self.side).all(1)
            sizes[open_[fits]] = attempted[fits]
            open_ = open_[~fits]
        return sizes


@cache
def _roots() -> npt.NDArray[np.float64]:
    """Square roots of the ratios of width to height, equally spaced in their logarithm.

    Decimal rounds exp and ln correctly, and IEEE arithmetic the rest: crops are the same on every machine.
    """
    with localcontext(prec=30):
        most = WIDEST.ln() / 2
        return np.array([float((most * (2 * i + 1 - _RATIOS) / _RATIOS).exp()) for i in range(_RATIOS)])
