"""Which steps of an epoch are audited: drawn from the system's entropy, which the result keeps."""

import numpy as np

from hpcai.data.philox import Purpose, below, stream
from hpcai.formulas.audits import MOST

ENTROPY_BITS = 64


def drawn_steps(count: int, steps: range, entropy: int, group: int, epoch: int) -> list[int]:
    """The steps of an epoch (from 0), of those in `steps`, that `count` draws give, for a group's model; ascending."""
    number, first = stream(Purpose.REPLAYED_STEP, group), epoch * MOST
    draws = below(len(steps), entropy, number, np.arange(first, first + count))
    return sorted({steps[int(draw)] for draw in draws})
