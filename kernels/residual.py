"""Residuals of a product: HPL's scaled residual and the stricter element-wise ratio, computed by blocks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .arithmetic import FP32, Arithmetic
from .spec import Block, Compared, Float64, Shape

ELEMENTWISE_LIMIT = 1.0


@dataclass(frozen=True)
class Residuals:
    """Both residuals of one direction of one layer; `images` of the batch were computed and checked.

    `wrong`: elements that are not exact, of products whose sums are (kernels/check.py).
    """

    kernel: str
    direction: str
    shape: Shape
    images: int
    inner: int
    scaled: float
    elementwise: float
    wrong: int = 0


def signs(length: int, seed: int) -> Float64:
    """A vector of random +-1, a function of (length, seed)."""
    return np.random.Generator(np.random.Philox(seed)).choice(np.array([-1.0, 1.0]), length)


def compare(block: Block, tolerance: float, arithmetic: Arithmetic = FP32, squares: Float64 | None = None) -> Compared:
    """|C - L.R| against tolerance * sqrt((L o L)(R o R)) + v * |L.R|, v the spacing of the stored type's numbers.

    A result that is rounded to nearest is off by half of v, so clean results in 16 bits reach 0.5. Where the root is 0
    there is nothing to sum, and nothing is allowed. `squares` are R o R, if they are known.
    """
    exact = block.L @ block.R
    root = np.sqrt(np.square(block.L) @ (np.square(block.R) if squares is None else squares))
    allowed = tolerance * root
    if arithmetic.roundoff:
        allowed += np.where(root > 0.0, spacing(exact, arithmetic), 0.0)
    return Compared(block.C, exact, allowed)


def spacing(values: Float64, arithmetic: Arithmetic) -> Float64:
    """Spacing of the stored type's numbers at these values."""
    return 2.0 * arithmetic.roundoff * np.maximum(np.abs(values), arithmetic.normal)


def worst(parts: Iterable[Compared]) -> float:
    """Largest |C - exact| / allowed; where nothing is allowed, 0 if C is exact, else infinite, as if not finite."""
    largest, seen = 0.0, False
    for C, exact, allowed in parts:
        error, seen = np.abs(C - exact), True
        if not np.isfinite(error).all():
            return math.inf
        ratio = np.where(error > 0.0, math.inf, 0.0)
        np.divide(error, allowed, out=ratio, where=allowed > 0.0)
        largest = max(largest, float(ratio.max(initial=0.0)))
    return largest if seen else math.inf


def wrong(parts: Iterable[Compared]) -> float:
    """Number of elements that are not exact. All are integers below 2^53, exact in float64.

    Infinite without elements.
    """
    counts = [int(np.count_nonzero(exact != C)) for C, exact, _ in parts]
    return sum(counts) if counts else math.inf


def _scaled(error: float, norm_A: float, norm_b: float, inner: int, eps: float) -> float:
    """HPL's ||Ax-b|| / (eps * (||A|| * ||x|| + ||b||) * N), max norms, ||x|| = 1, N = inner.

    eps is the unit roundoff of the accumulator (fp32: 2^-24), as HPL takes dlamch('E') = 2^-53 for fp64;
    the distance of neighbouring numbers, 2^-23, would halve the value. Results stored in 16 bits are known no better
    than that type's roundoff, which is eps then.
    """
    return error / (eps * (norm_A + norm_b) * inner) if error > 0.0 else 0.0


def measure(
    blocks: Iterable[Block], inner: int, tolerance: float, seed: int, arithmetic: Arithmetic = FP32
) -> tuple[float, float]:
    """(scaled, elementwise) residuals of a product given in row blocks with the same columns.

    For HPL's measure A is the blocks' C stacked, x = signs(columns, seed) and b = L(Rx), all in float64. A NaN or an
    infinity anywhere, or no block at all, makes both infinite: it can never pass.
    """
    norms, largest, seen = (0.0, 0.0, 0.0), 0.0, False
    for block in blocks:
        seen = True
        if not all(np.isfinite(matrix).all() for matrix in block):
            return math.inf, math.inf
        current = _norms(block, signs(block.R.shape[1], seed))
        norms = (max(norms[0], current[0]), max(norms[1], current[1]), max(norms[2], current[2]))
        largest = max(largest, worst([compare(block, tolerance, arithmetic)]))
    return (_scaled(*norms, inner, arithmetic.eps), largest) if seen else (math.inf, math.inf)


def _norms(block: Block, x: Float64) -> tuple[float, float, float]:
    """Max norms of Ax - b, A and b, over the block's rows."""
    b = block.L @ (block.R @ x)
    return float(np.abs(block.C @ x - b).max()), float(np.abs(block.C).sum(axis=1).max()), float(np.abs(b).max())
