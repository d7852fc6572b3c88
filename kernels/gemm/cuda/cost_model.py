"""Which tiles are likely to compute a product fastest, by counting: pure numbers, the same on every machine."""

from ...cuda.architecture import Target
from ...cuda.tile_candidates import candidates, engines, with_split_k
from ...cuda.tiling import KINDS, LINE, MMA, SIMT, WGMMA, Operand, Tile, rasterization
from .launches import transposed_bytes
from .tensors import tma_can_read

# Clocks that a multiprocessor takes for a product of two vectors of 128 bytes, by instruction: for wgmma 4096 FLOP of
# 16 bits a clock, half of it for mma.sync as on an A100, 128 multiply-adds in fp32 (CUDA C++ Programming Guide,
# "Arithmetic Instructions").
CLOCKS = {WGMMA: 1 / 32, MMA: 1 / 16, SIMT: 1 / 4}
# Products that the time of a vector's way to the tensor cores would do: shared memory takes a clock to write 128 bytes,
# and one for each time they are read, which is hidden behind products in part.
LOADS = 12
BEGINNING = 1000  # clocks from the begin of a tile until its products are under way
STORED = 16  # sums that are stored in a clock
LAUNCH = 4000  # clocks until another kernel has begun
BANDWIDTH = 16  # bytes of memory in a clock, for each multiprocessor
WORSE = 2.5  # times the least estimate: what is slower is not even tried
MOST = 10  # tiles that are tried


def ranked(type: str, a: Operand, b: Operand, target: Target, processors: int) -> list[Tile]:
    """The tiles that a product of a type may be computed by on a GPU, the likely fastest first; those not far behind.

    Empty where the GPU has no instructions for the type.
    """
    lines = -(-a.steps * KINDS[type].operand_bytes // LINE)
    boxes = all(tma_can_read(type, operand) for operand in (a, b))
    tiles = [tile for engine in engines(type, target, boxes) for tile in candidates(type, engine, target)]
    variants = [
        variant for tile in tiles for variant in with_split_k(tile, max(1, a.rows), max(1, b.rows), lines, processors)
    ]
    clocks = {variant: estimate(type, a, b, variant, processors) for variant in variants}
    near = [variant for variant in variants if clocks[variant] <= WORSE * min(clocks.values())]
    return sorted(near, key=lambda variant: clocks[variant])[:MOST]


def estimate(type: str, a: Operand, b: Operand, tile: Tile, processors: int) -> float:
    """Clocks of a product: those of the multiprocessor with most tiles, then of the kernels around it."""
    kind, line = KINDS[type], LINE // KINDS[type].operand_bytes
    down, across, parts, steps, _ = rasterization(tile, a.rows, b.rows, a.steps, line, processors)
    tiles = -(-down * across * parts * tile.cluster // processors)
    sums, share = tile.rows * tile.columns, tile.rows + tile.columns / tile.cluster
    products = steps // line * CLOCKS[tile.engine] * (sums + LOADS * share)
    # Blocks of the same multiprocessor store while others compute, and so do consumers that take turns.
    ends = -(-tiles // (2 if tile.ping_pong else tile.blocks)) * (BEGINNING + sums / STORED)
    added = parts * a.rows * b.rows * kind.sum_bytes if parts > 1 else 0
    transposed = [transposed_bytes(kind, tile.engine, operand) for operand in (a, b)]
    around = [2 * nbytes / (BANDWIDTH * processors) + LAUNCH for nbytes in (added, *transposed) if nbytes]
    return tiles * products + ends + sum(around)
