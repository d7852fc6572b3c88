"""Cost model that ranks tiles of a matrix product by estimated clocks; the same on every machine."""

from ...cuda.architecture import Target
from ...cuda.tile_candidates import candidates, engines, with_split_k
from ...cuda.tiling import KINDS, LINE, MMA, SIMT, WGMMA, Operand, Tile, rasterization
from .launches import k_major_copy, needs_transpose, transposed_bytes
from .tensors import tma_can_read

# Clocks of a multiprocessor for a product of two vectors of 128 bytes, by engine: 4096 16-bit operations a clock for
# wgmma, half of that for mma.sync as on an A100, 128 fp32 multiply-adds (CUDA C++ Programming Guide, "Arithmetic
# Instructions").
CLOCKS = {WGMMA: 1 / 32, MMA: 1 / 16, SIMT: 1 / 4}
# Cost of loading a vector, in products: shared memory needs a clock to write 128 bytes, and a clock for each read,
# which products hide in part.
LOADS = 12
BEGINNING = 1000  # clocks from the start of a tile to its first product
STORED = 16  # sums stored in a clock
LAUNCH = 4000  # clocks of a kernel launch
BANDWIDTH = 16  # bytes of global memory a clock and multiprocessor
WORSE = 2.5  # tiles above this multiple of the best estimate are not measured
MOST = 10  # maximum number of measured tiles


def ranked(type: str, a: Operand, b: Operand, target: Target, processors: int) -> list[Tile]:
    """The tiles within a factor WORSE of the best estimate, the best first.

    Empty if the GPU lacks instructions for the type.
    """
    lines = -(-a.steps * KINDS[type].operand_bytes // LINE)
    boxes = all(tma_can_read(type, operand) for operand in (a, b))
    pieces = {engine: _piece(type, engine, a, b) for engine in engines(type, target, boxes)}
    tiles = [tile for engine in pieces for tile in candidates(type, engine, target, pieces[engine])]
    variants = [
        variant for tile in tiles for variant in with_split_k(tile, max(1, a.rows), max(1, b.rows), lines, processors)
    ]
    clocks = {variant: estimate(type, a, b, variant, processors) for variant in variants}
    near = [variant for variant in variants if clocks[variant] <= WORSE * min(clocks.values())]
    return sorted(near, key=lambda variant: clocks[variant])[:MOST]


def _piece(type: str, engine: str, a: Operand, b: Operand) -> int:
    """Aligned bytes that an engine can copy at once of the operands, transposed ones included."""
    kind = KINDS[type]
    read = (k_major_copy(kind, operand) if needs_transpose(kind, engine, operand) else operand for operand in (a, b))
    return min(operand.piece(kind.operand_bytes) for operand in read)


def estimate(type: str, a: Operand, b: Operand, tile: Tile, processors: int) -> float:
    """Clocks of a product: those of the busiest multiprocessor, plus the kernels around it."""
    kind, line = KINDS[type], LINE // KINDS[type].operand_bytes
    down, across, parts, steps, _ = rasterization(tile, a.rows, b.rows, a.steps, line, processors)
    tiles = -(-down * across * parts * tile.cluster // processors)
    sums, share = tile.rows * tile.columns, tile.rows + tile.columns / tile.cluster
    products = steps // line * CLOCKS[tile.engine] * (sums + LOADS * share)
    # Stores overlap with products of other blocks of a multiprocessor, and of the other consumer with ping-pong.
    ends = -(-tiles // (2 if tile.ping_pong else tile.blocks)) * (BEGINNING + sums / STORED)
    added = parts * a.rows * b.rows * kind.sum_bytes if parts > 1 else 0
    transposed = [transposed_bytes(kind, tile.engine, operand) for operand in (a, b)]
    around = [2 * nbytes / (BANDWIDTH * processors) + LAUNCH for nbytes in (added, *transposed) if nbytes]
    return tiles * products + ends + sum(around)
