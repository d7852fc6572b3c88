"""Candidate tiles of products on a GPU, restricted to those that fit."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..spec import FORWARD, WEIGHT_GRADIENT
from .architecture import Target
from .tiling import KINDS, MMA, SIMT, WGMMA, Tile

# KiB of shared memory of a block, by capability. CUDA C++ Programming Guide, "Compute Capabilities".
SHARED = {(7, 5): 64, (8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227, (10, 3): 227, (11, 0): 227}
OTHERWISE = 99  # of 8.6, 8.9, 12.0 and unknown ones
LEAST_COPY = 4  # smallest number of bytes that cp.async copies; PTX ISA, "cp.async"

WARPGROUP_TILES = (
    Tile(WGMMA, 128, 256, 4, cluster=2),
    Tile(WGMMA, 128, 256, 4),
    Tile(WGMMA, 256, 128, 4, cluster=2),
    Tile(WGMMA, 128, 128, 6, cluster=2, ping_pong=True),
    Tile(WGMMA, 128, 128, 6, ping_pong=True),
    Tile(WGMMA, 128, 128, 6, cluster=2),
    Tile(WGMMA, 128, 64, 8, ping_pong=True),
    Tile(WGMMA, 64, 64, 8, ping_pong=True),
)
WARP_TILES = (
    Tile(MMA, 128, 128, 3, blocks=2),
    Tile(MMA, 128, 256, 3, 2, 4),
    Tile(MMA, 64, 128, 4, blocks=2),
    Tile(MMA, 64, 64, 4, blocks=3),
)
# Tiles of convolutions, whose producer hands stages over two stages late.
GATHERING_TILES = (
    Tile(WGMMA, 128, 256, 4, cluster=2),
    Tile(WGMMA, 128, 256, 4),
    Tile(WGMMA, 256, 128, 4, cluster=2),
    Tile(WGMMA, 256, 128, 4),
    Tile(WGMMA, 128, 128, 6, ping_pong=True, cluster=2),
    Tile(WGMMA, 128, 128, 6, ping_pong=True),
    Tile(WGMMA, 64, 256, 5, ping_pong=True),
    Tile(WGMMA, 256, 64, 5),
    Tile(WGMMA, 128, 64, 8, ping_pong=True),
    Tile(WGMMA, 64, 128, 8, ping_pong=True),
    Tile(WGMMA, 64, 64, 8, ping_pong=True),
)
GATHERING_WARP_TILES = (
    Tile(MMA, 128, 256, 3, 2, 4),
    Tile(MMA, 128, 128, 3, blocks=2),
    Tile(MMA, 128, 128, 4, 2, 4),
    Tile(MMA, 64, 128, 4, blocks=2),
    Tile(MMA, 128, 64, 4, blocks=2),
    Tile(MMA, 64, 64, 4, blocks=3),
)
LANE_TILES = {
    "fp32": (
        Tile(SIMT, 128, 128, 3, blocks=2),
        Tile(SIMT, 128, 128, 2, blocks=2),
        Tile(SIMT, 128, 64, 3, blocks=3),
        Tile(SIMT, 64, 64, 3, blocks=4),
    ),
    "fp64": (Tile(SIMT, 128, 64, 3, blocks=2), Tile(SIMT, 64, 64, 3, blocks=3)),
}


def engines(type: str, target: Target, boxes: bool) -> tuple[str, ...]:
    """Engines that compute a type on a GPU, the fastest first; `boxes`: TMA can read the operands."""
    if type in LANE_TILES:
        return (SIMT,)
    of_warps = (MMA,) if target.has_tensor_cores else ()
    return (WGMMA, *of_warps) if target.has_wgmma and boxes else of_warps


def candidates(type: str, engine: str, target: Target, piece: int = 16) -> tuple[Tile, ...]:
    """Tiles of an engine that fit into the shared memory of a block and the registers of a thread.

    `piece`: aligned bytes of an operand that can be copied at once.
    """
    tiles = {WGMMA: WARPGROUP_TILES, MMA: WARP_TILES, SIMT: LANE_TILES.get(type, ())}[engine]
    if engine == MMA and piece < LEAST_COPY:  # elements are loaded one by one, which takes registers
        tiles = tuple(tile for tile in tiles if not _large(tile, 1024 * piece))
    return _fitting(type, tiles, target)


def _fitting(type: str, tiles: Iterable[Tile], target: Target) -> tuple[Tile, ...]:
    room = 1024 * SHARED.get(target.capability, OTHERWISE)
    return tuple(tile for tile in tiles if tile.shared(KINDS[type]) <= room)


def gathering_engines(type: str, direction: str, target: Target) -> tuple[str, ...]:
    """Engines for a direction of a convolution, the fastest first; none for int8 gradients.

    Operands of gradients are MN-major, which wgmma supports for 16-bit types only.
    """
    found = engines(type, target, boxes=direction == FORWARD or KINDS[type].operand_bytes == 2)
    return () if type == "int8" and direction != FORWARD else found


def gathering(type: str, direction: str, engine: str, target: Target, boxes: bool) -> tuple[Tile, ...]:
    """Tiles of an engine for a direction of a convolution; `boxes`: TMA can load the operand that is not gathered."""
    tiles = {WGMMA: GATHERING_TILES, MMA: GATHERING_WARP_TILES, SIMT: LANE_TILES.get(type, ())}[engine]
    shared = boxes and direction != WEIGHT_GRADIENT  # blocks of a cluster share columns
    large = type == "tf32" and direction != FORWARD  # numbers that are loaded one by one need registers
    wide = engine == MMA and direction == WEIGHT_GRADIENT  # so do the taps of each group of columns
    kept = (tile for tile in tiles if (shared or tile.cluster == 1) and not (large and _large(tile)))
    kept = (tile for tile in kept if not wide or tile.columns <= 128)
    return _fitting(type, kept, target)


def _large(tile: Tile, most: int = 2048) -> bool:
    """Whether a warp computes more than `most` elements of a tile, and would exceed its registers."""
    return tile.rows * tile.columns // (tile.down * tile.across) > most


def with_split_k(tile: Tile, rows: int, columns: int, lines: int, processors: int) -> Iterator[Tile]:
    """The tile without split-K and, with fewer tiles than multiprocessors, with split-K as well."""
    yield tile
    tiles = -(-rows // tile.rows) * -(-columns // tile.columns)
    most = min(processors * tile.blocks // tiles, lines // 4)
    yield from (replace(tile, parts=parts) for parts in sorted({2, most // 2, most}) if 1 < parts <= most)
