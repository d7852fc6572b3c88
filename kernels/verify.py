"""Verification of a provider's whole result against float64, at the shape that is timed.

Every element where the float64 product is affordable, else products with random vectors, which involve every element.
Attention, which is no product, is verified in heads drawn at random then.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from random import SystemRandom
from typing import Any

import numpy as np

from . import attention
from .arithmetic import FP32, FP64, UNIT_ROUNDOFF_FP32, Arithmetic
from .arrays import aligned, rounded
from .attention import reference as attention_reference
from .conv2d import reference as conv2d_reference
from .copy import reference as copy_reference
from .fma_peak import reference as fma_peak_reference
from .gemm import reference as gemm_reference
from .providers import Prepared
from .residual import compare, signs, spacing, worst, wrong
from .spec import DTYPES, FORWARD, OPERANDS, WEIGHT_GRADIENT, Block, Compared, Float64, Shape, Spec, Tensors
from .triad import TERMS
from .triad import reference as triad_reference

EVERY_ELEMENT, RANDOM_VECTORS, RANDOM_HEADS = "every element", "random vectors", "random heads"
ATTENTION = attention.SPEC.name
LARGEST_OPERATIONS = 2**31  # operations of a product checked element by element, at most
VECTORS = 8  # random vectors: two faults that cancel in one are missed by all with probability 2^-8
BLOCK_ELEMENTS = 2**20
SUMMED = 256  # columns of rounded results a random vector covers: with more, rounding would hide a missing element


def drawn(
    shape: Shape, dtype: str, seed: int, wanted: Collection[str] = Tensors._fields, number: int = 0
) -> Tensors:
    """x, w and g, standard normal or random bytes, each a function of (size, type, seed, number of the set).

    Empty if not wanted.
    """
    kind: Any = DTYPES[dtype].array

    def one(index: int, name: str, size: tuple[int, ...]) -> Any:
        if name not in wanted:
            return np.empty((0, 0), kind)
        generator = np.random.Generator(np.random.Philox([seed, index + len(Tensors._fields) * number]))
        if DTYPES[dtype].exact:
            return aligned(generator.integers(-128, 128, size, np.int8))
        return aligned(rounded(generator.standard_normal(size, dtype=kind), DTYPES[dtype].arithmetic))

    sizes = zip(Tensors._fields, (shape.x, shape.w, shape.y), strict=True)
    return DTYPES[dtype].held(*(one(index, name, size) for index, (name, size) in enumerate(sizes)))


def second_set(data: Tensors, shape: Shape, direction: str, dtype: str, seed: int) -> Tensors:
    """Operands of another product of the same shape: the smaller operand of the direction is drawn anew.

    The other ones are shared, so that little more memory is needed, and the result differs in every element.
    """
    sizes = {name: getattr(data, name).size for name in OPERANDS[direction]}
    name = min((name for name, size in sizes.items() if size), key=sizes.__getitem__)
    return data._replace(**{name: getattr(drawn(shape, dtype, seed, (name,), 1), name)})


def checked(spec: Spec[Any], shape: Any, direction: str = FORWARD) -> str:
    """Which of the verifications a shape gets."""
    if not isinstance(shape, Shape):
        return EVERY_ELEMENT
    return verification(spec.name, spec.operations_of(shape, direction))


def verification(kernel: str, operations: int) -> str:
    """Which of the verifications a product of so many operations gets."""
    if operations <= LARGEST_OPERATIONS:
        return EVERY_ELEMENT
    return RANDOM_HEADS if kernel == ATTENTION else RANDOM_VECTORS


def residual(
    spec: Spec[Any], shape: Any, direction: str, dtype: str, data: Any, found: Prepared, seed: int = 1
) -> float:
    """The worst element-wise measure of what `found` computed last, limit 1; of whole numbers how many are wrong.

    With random vectors r of +-1 the elements of C r = L (R r) are judged, whose errors add up like a random walk.
    Infinite where a number is not finite.
    """
    parts = _compared(spec, shape, direction, dtype, data, found, seed)
    return wrong(parts) if DTYPES[dtype].exact else worst(parts)


def _compared(
    spec: Spec[Any], shape: Any, direction: str, dtype: str, data: Any, found: Prepared, seed: int
) -> Iterator[Compared]:
    result, tolerance = found.result(), tolerance_of(spec, shape, direction, dtype, found.slack)
    if spec.name == "fma_peak":
        return fma_peak_reference.compared(result, shape, tolerance, data.term)
    if spec.name == "triad":
        return triad_reference.compared(result, data, shape, tolerance)
    if spec.name == "copy":
        return copy_reference.compared(result, data)
    assert result.shape == shape.result(direction), direction
    if spec.name == ATTENTION:
        return _of_attention(spec, shape, direction, data, result, found.slack)
    blocks, stored = _blocks(spec.name, direction, data, result, shape), DTYPES[dtype].arithmetic
    if checked(spec, shape, direction) == EVERY_ELEMENT:
        return every_element(blocks, tolerance, stored)
    return random_vectors(blocks, tolerance, seed, stored)


def _of_attention(
    spec: Spec[Any], shape: attention.Shape, direction: str, data: Tensors, result: Any, slack: float
) -> Iterator[Compared]:
    """All heads where that is affordable, else as many as are, drawn from the system's entropy; all must be finite."""
    count, operations = shape.batch * shape.heads, spec.operations_of(shape, direction)
    affordable = max(1, count * LARGEST_OPERATIONS // operations)
    heads = range(count) if affordable >= count else SystemRandom().sample(range(count), affordable)
    yield from attention_reference.compared(result, data, shape, direction, slack, heads)
    if len(heads) < count:
        yield Compared(np.asarray(np.isfinite(result).all(), np.float64), np.asarray(1.0), np.asarray(0.0))


def tolerance_of(spec: Spec[Any], shape: Any, direction: str, dtype: str, slack: float = 1.0) -> float:
    """Allowed error of an element relative to the root of its summed squares; `slack` of the algorithm."""
    scale = slack * DTYPES[dtype].unit / UNIT_ROUNDOFF_FP32
    if not isinstance(shape, Shape):
        return scale * spec.tolerance(shape.steps if spec.name == "fma_peak" else TERMS)
    inner = shape.inner(direction)
    return scale * (spec.tolerance(inner) + (cut_off(inner) if DTYPES[dtype].cut else 0.0))


def cut_off(inner: int) -> float:
    """Additional error of a tensor core's sum by truncation, relative to the root of its summed squares.

    They add a few products at a time and cut each sum off towards zero (Fasi et al., PeerJ Computer Science 7:e330,
    2021). That loses half of its spacing on average, u of it, always on the same side: with four at a time it is
    inner / 4 * u of a sum that may reach four times that root.
    """
    return inner * UNIT_ROUNDOFF_FP32


def _blocks(kernel: str, direction: str, data: Tensors, result: Any, shape: Any) -> Iterable[Block]:
    """The reference's blocks; for large matrices larger blocks that share a converted factor."""
    if kernel == "conv2d":
        return conv2d_reference.blocks(direction, data, result, shape)
    return _rows(*gemm_reference.factors(direction, data), result.T if direction == WEIGHT_GRADIENT else result)


def _rows(left: Any, right: Any, product: Any) -> Iterator[Block]:
    R, rows = np.asarray(right, np.float64), max(1, BLOCK_ELEMENTS // max(1, *right.shape))
    for first in range(0, len(left), rows):
        part = slice(first, first + rows)
        yield Block(np.asarray(left[part], np.float64), R, np.asarray(product[part], np.float64))


def every_element(blocks: Iterable[Block], tolerance: float, stored: Arithmetic = FP32) -> Iterator[Compared]:
    """Element-wise residual of all elements (see `compare`); squares of a shared factor are computed once."""
    factor: Any = None
    squares: Any = None
    for block in blocks:
        if block.R is not factor:
            factor, squares = block.R, np.square(block.R)
        yield compare(block, tolerance, stored, squares)


def random_vectors(
    blocks: Iterable[Block], tolerance: float, seed: int, stored: Arithmetic = FP32
) -> Iterator[Compared]:
    """|C r - L(R r)| / (tolerance * sqrt(sum over the row of (L o L)(R o R))), for several random r of +-1.

    What float64 itself may add is allowed besides. These sums have as many terms as a row of C has elements or, where
    each of those may be off by half of the spacing v of what it is stored as, SUMMED: such errors add up like a random
    walk as well, to less than 2 * sqrt(sum of v o v).
    """
    factor: Any = None
    for L, R, C in blocks:
        if R is not factor:
            factor, r = R, signs(R.shape[1] * VECTORS, seed).reshape(-1, VECTORS)
            parts = _parts(len(r), stored)
            Rr, squares = np.hstack([R[:, part] @ r[part] for part in parts]), _squares(R, parts)
        allowed = (tolerance + 8.0 * math.sqrt(len(r)) * FP64.unit) * np.sqrt(np.square(L) @ squares)
        if stored.roundoff:
            allowed += 2.0 * np.sqrt(_squares(spacing(C, stored), parts))
        Cr = np.hstack([C[:, part] @ r[part] for part in parts])
        yield Compared(Cr, L @ Rr, np.repeat(allowed, VECTORS, axis=1))


def _parts(columns: int, stored: Arithmetic) -> list[slice]:
    width = SUMMED if stored.roundoff else columns
    return [slice(first, first + width) for first in range(0, columns, width)]


def _squares(matrix: Float64, parts: list[slice]) -> Float64:
    """Sums of squares of each row, by part."""
    return np.stack([np.einsum("ij,ij->i", matrix[:, part], matrix[:, part]) for part in parts], axis=1)
