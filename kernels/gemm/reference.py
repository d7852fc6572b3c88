"""The matrix product and its gradients as L . R in float64, in row blocks. Frozen: made to be obvious, not fast."""

from collections.abc import Iterator

import numpy as np

from ..spec import FORWARD, INPUT_GRADIENT, Block, Float32, Float64, Tensors
from . import Shape

BLOCK_ELEMENTS = 2**17


def factors(direction: str, data: Tensors) -> tuple[Float32, Float32]:
    """L and R of a direction: y = x . w^T, dx = g . w, dw^T = x^T . g."""
    if direction == FORWARD:
        return data.x, data.w.T
    return (data.g, data.w) if direction == INPUT_GRADIENT else (data.x.T, data.g)


def blocks(direction: str, data: Tensors, out: Float32, shape: Shape) -> Iterator[Block]:
    """Pairs of `out`, a provider's y, dx or dw, and the factors of its exact value; every element once."""
    left, right = factors(direction, data)
    product = out if direction in (FORWARD, INPUT_GRADIENT) else out.T
    rows = max(1, BLOCK_ELEMENTS // max(right.shape))
    for first in range(0, len(left), rows):
        part = slice(first, first + rows)
        yield Block(left[part].astype(np.float64), right.astype(np.float64), product[part].astype(np.float64))


def terms(direction: str, data: Tensors, shape: Shape, place: tuple[int, ...]) -> tuple[Float64, Float64]:
    """The factors, term by term, of one element of a direction's result."""
    left, right = factors(direction, data)
    row, column = place if direction in (FORWARD, INPUT_GRADIENT) else place[::-1]
    return left[row].astype(np.float64), right[:, column].astype(np.float64)
