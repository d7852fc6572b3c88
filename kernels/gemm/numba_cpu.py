"""The matrix product in Numba: blocks that fit the caches, each thread on a part of its own."""

from typing import Any

import numpy as np

from ..arrays import poisoned, prepared
from ..cpu.blocking import CROWDED, blocks, blocks_of, row_pitch, share_of, shares
from ..cpu.compiled import compiled
from ..cpu.epilogue import Epilogue, finish, from_channel, no_epilogue
from ..cpu.function_pointer import address_of, call_at
from ..cpu.load_store import bytes_of
from ..cpu.macrokernel import NOTHING, Left, Prefetcher, multiply_block, sliver_width
from ..cpu.packing import Matrix, add_to, clear_run, pack_rows, pack_slivers, part, scale, turned
from ..cpu.parallel import in_team
from ..cpu.simd import OWN, ROWS
from ..cpu.split_k import add_layers, layer_of
from ..cpu.workspace import workspace
from ..providers import Prepared, Unavailable
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors, dtype_of
from . import Shape
from .cpu.int8_packing import WORD, pack_byte_rows, pack_byte_slivers, take_off_sums

PROVIDER = "custom"
DEVICES = ("cpu",)

EXACT_STEPS = 1024  # products of two int8 that fp32 adds up exactly
TYPES = ("fp32", "fp64", "int8")
DIRECT = 2  # slivers of B for which it pays less to pack rows of A
NEAR = 2**19  # bytes that are fetched ahead at most: half of a second cache
WIDE = 8  # bytes of numbers of which rows of a tile fill the first cache: panels are read in one piece
_pitch, _share = compiled(row_pitch), compiled(share_of)


def gemm(a: Any, b: Any, c: Any, alpha: float = 1.0, beta: float = 0.0, threads: int = 1) -> None:
    """C = alpha A B + beta C in place: float32 or float64 [m, k], [k, n] and [m, n], each with any strides.

    C must not share memory with A or B. With beta = 0 what C holds is not read.
    """
    if c.strides[0] == c.itemsize != c.strides[1]:
        a, b, c = b.T, a.T, c.T
    multiply(c.dtype.type(alpha), c.dtype.type(beta), matrix(a), matrix(b), matrix(c), threads)


def gemm_bytes(a: Any, b: Any, c: Any, threads: int = 1) -> None:
    """C = A B: int8 [m, k] and [k, n] with any strides, summed exactly in int32 [m, n], whose rows are in one piece."""
    if not OWN.multiplies_bytes:
        _by_floats(a, b, c, threads)
        return
    sizes = blocks(c.itemsize)
    parts = shares(threads, *c.shape, a.shape[1] // 4 + 1, c.itemsize, False)
    nbytes = sizes.nbytes + -(-sizes.columns * c.itemsize // 64) * 64
    work = workspace(threads * nbytes)
    whole = (matrix(a), matrix(b), matrix(c))
    each = address_of(_multiply_bytes, *whole, work, sizes)
    _multiply_bytes_on_threads(each, parts, *whole, work, nbytes, sizes)


def _by_floats(a: Any, b: Any, c: Any, threads: int) -> None:
    """In parts whose sums are whole numbers below 2^24, which fp32 has exactly."""
    c[:] = 0
    part_of_c = np.empty(c.shape, np.float32)
    for first in range(0, a.shape[1], EXACT_STEPS):
        steps = slice(first, first + EXACT_STEPS)
        gemm(a[:, steps].astype(np.float32), b[steps].astype(np.float32), part_of_c, threads=threads)
        c += part_of_c.astype(np.int32)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`. Unavailable for types that only GPUs multiply."""
    if dtype_of(data) not in TYPES:
        raise Unavailable(f"{dtype_of(data)} products in Numba; there are {', '.join(TYPES)}")
    x, w, g = data
    a, b = {FORWARD: (x, w.T), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (g.T, x)}[direction]
    c = poisoned(shape.result(direction), "int32" if a.dtype == np.int8 else a.dtype.name)
    multiply_them = gemm_bytes if a.dtype == np.int8 else gemm
    return [prepared(lambda: multiply_them(a, b, c, threads=threads), c)]


def matrix(array: Any) -> Matrix:
    """Where an array of two dimensions lies; it must stay there."""
    return Matrix(array.ctypes.data, *array.shape, *array.strides)


def multiply(
    alpha: Any, beta: Any, a: Matrix, b: Matrix, c: Matrix, threads: int, epilogue: Epilogue | None = None
) -> None:
    """Like `gemm`, of matrices that are not arrays; alpha and beta are of their type.

    With an epilogue rows of C are pixels, and their numbers, side by side, channels.
    """
    size, then = alpha.itemsize, epilogue or no_epilogue(alpha)
    parts = shares(threads, c.rows, c.columns, a.columns, size, deep=epilogue is None)
    sizes = blocks_of(size, c.rows // parts.down, c.columns // parts.across, a.columns // parts.deep)
    packed = parts.down * parts.across * parts.deep * sizes.nbytes
    sums = (parts.deep - 1) * c.rows * c.columns * size
    work = workspace(packed + sums)
    if threads == 1:
        _multiply(alpha, beta, a, b, c, work, sizes, then)
        return
    each = address_of(_multiply, alpha, beta, a, b, c, work, sizes, then)
    _multiply_on_threads(each, parts, alpha, beta, a, b, c, work, work + packed, sizes, then)
    if parts.deep > 1:
        add_layers(parts, alpha, c, work + packed)


@compiled
def _multiply_on_threads(
    each: Any, parts: Any, alpha: Any, beta: Any, a: Any, b: Any, c: Any, work: Any, sums: Any, sizes: Any, then: Any
) -> None:
    """Each thread a part of C, and of the steps; parts of the steps but the first one's into `sums`."""
    given = (each, parts, alpha, beta, a, b, c, work, sums, sizes, then)
    in_team(_multiply_part, parts.down * parts.across * parts.deep, given)


@compiled
def _multiply_part(
    thread: Any, each: Any, parts: Any, alpha: Any, beta: Any, a: Any, b: Any, c: Any, work: Any, sums: Any,
    sizes: Any, then: Any,
) -> None:
    tall, wide = _share(c.rows, parts.down, ROWS), _share(c.columns, parts.across, sliver_width(alpha))
    steps, layer = _share(a.columns, parts.deep, 1), thread // (parts.down * parts.across)
    row, column = thread // parts.across % parts.down * tall, thread % parts.across * wide
    if row < c.rows and column < c.columns:
        first = min(layer * steps, a.columns)
        left, right = part(a, row, first, tall, steps), part(b, first, column, steps, wide)
        target = part(layer_of(alpha, c, sums, layer), row, column, tall, wide)
        own = alpha - alpha if layer else beta
        rest = from_channel(alpha, then, column)
        room = work + thread * sizes.nbytes
        call_at(_multiply, each, (alpha, own, left, right, target, room, sizes, rest))


@compiled
def _multiply(alpha: Any, beta: Any, a: Any, b: Any, c: Any, work: Any, sizes: Any, then: Any) -> None:
    """C = alpha A B + beta C by one thread, which packs into `work`."""
    if a.columns == 0 or (beta != 0 and beta != 1):
        scale(beta, c)
    if a.columns == 0:
        finish(alpha, then, c.address, c.rows, c.down, 0, c.columns)
    for column in range(0, c.columns, sizes.columns):
        for step in range(0, a.columns, sizes.steps):
            right = part(b, step, column, sizes.steps, sizes.columns)
            pack_slivers(alpha, work, sliver_width(alpha), right, right.rows)
            for row in range(0, c.rows, sizes.rows):
                block, add = part(c, row, column, sizes.rows, sizes.columns), step > 0 or beta != 0
                taken = part(a, row, step, sizes.rows, sizes.steps)
                left = _packed(alpha, taken, work + sizes.left, right.columns)
                ahead = _ahead(alpha, a, b, row, step, sizes)
                multiply_block(alpha, left, work, right.rows, block, add, work + sizes.beside, ahead)
                if step + sizes.steps >= a.columns:
                    finish(alpha, then, block.address, block.rows, block.down, column, block.columns)


@compiled
def _ahead(like: Any, a: Any, b: Any, row: Any, step: Any, sizes: Any) -> Any:
    """What follows a block: the next rows of A, or the next steps of A, given by columns, and of B.

    Only where it lies in one piece, and is little enough to be kept.
    """
    size = bytes_of(like)
    if a.right == size and a.down == a.columns * size and a.columns <= sizes.steps:
        rows = max(0, min(sizes.rows, a.rows - row - sizes.rows))
        return Prefetcher(a.address + (row + sizes.rows) * a.down, min(rows * a.down, NEAR), 0, 0)
    following = step + sizes.steps
    count = max(0, min(sizes.steps, a.columns - following))
    if a.right != a.rows * size or b.down != b.columns * size or count * b.down > NEAR:
        return NOTHING
    rest = min(count * a.right, NEAR - count * b.down)
    return Prefetcher(b.address + following * b.down, count * b.down, a.address + following * a.right, rest)


@compiled
def _packed(alpha: Any, a: Any, target: Any, columns: Any) -> Left:
    """A block of A as tiles take it: as it lies, where its rows are in one piece and do not meet in the cache."""
    size, few = bytes_of(alpha), columns <= DIRECT * sliver_width(alpha)
    if a.right != size or (size == WIDE and not few):
        pack_slivers(alpha, target, ROWS, turned(a), a.columns)
        return Left(target, a.columns * size, a.rows, 0, 0, True)
    pitch, whole = _pitch(a.columns, size), a.rows // ROWS * ROWS
    if a.down % CROWDED == 0 or (a.down % (CROWDED // 2) == 0 and not few):
        pack_rows(alpha, target, pitch, a, (a.rows + ROWS - 1) // ROWS * ROWS)
        return Left(target, pitch, a.rows, 0, 0, False)
    if whole < a.rows:
        pack_rows(alpha, target, pitch, part(a, whole, 0, ROWS, a.columns), ROWS)
    return Left(a.address, a.down, whole, target, pitch, False)


@compiled
def _multiply_bytes_on_threads(
    each: Any, parts: Any, a: Any, b: Any, c: Any, work: Any, nbytes: Any, sizes: Any
) -> None:
    in_team(_multiply_bytes_part, parts.down * parts.across, (each, parts, a, b, c, work, nbytes, sizes))


@compiled
def _multiply_bytes_part(
    thread: Any, each: Any, parts: Any, a: Any, b: Any, c: Any, work: Any, nbytes: Any, sizes: Any
) -> None:
    tall, wide = _share(c.rows, parts.down, ROWS), _share(c.columns, parts.across, sliver_width(np.int32(0)))
    row, column = thread // parts.across * tall, thread % parts.across * wide
    if row < c.rows and column < c.columns:
        left, right = part(a, row, 0, tall, a.columns), part(b, 0, column, b.rows, wide)
        into = part(c, row, column, tall, wide)
        call_at(_multiply_bytes, each, (left, right, into, work + thread * nbytes, sizes))


@compiled
def _multiply_bytes(a: Any, b: Any, c: Any, work: Any, sizes: Any) -> None:
    """C = A B by one thread; the sums of B's columns lie behind the packed blocks."""
    zero, sums, width = np.int32(0), work + sizes.nbytes, sliver_width(np.int32(0))
    if a.columns == 0:
        scale(zero, c)
    for column in range(0, c.columns, sizes.columns):
        clear_run(zero, sums, min(sizes.columns, c.columns - column))
        for step in range(0, a.columns, sizes.steps * WORD):
            right = part(b, step, column, sizes.steps * WORD, sizes.columns)
            pack_byte_slivers(work, right)
            words = (right.rows + WORD - 1) // WORD
            for place in range(0, right.columns, width):
                take_off_sums(sums + place * WORD, work + place * words * WORD, words)
            for row in range(0, c.rows, sizes.rows):
                taken = part(a, row, step, sizes.rows, sizes.steps * WORD)
                pack_byte_rows(work + sizes.left, _pitch(words, WORD), taken)
                left = Left(work + sizes.left, _pitch(words, WORD), taken.rows, 0, 0, False)
                block = part(c, row, column, sizes.rows, sizes.columns)
                multiply_block(zero, left, work, words, block, step > 0, work + sizes.beside, NOTHING)
        whole = part(c, 0, column, c.rows, sizes.columns)
        add_to(zero, whole, Matrix(sums, whole.rows, whole.columns, 0, WORD))
