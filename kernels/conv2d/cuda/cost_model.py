"""Cost model that ranks tiles of a convolution by estimated clocks; the same on every machine."""

from collections.abc import Iterator
from dataclasses import replace

from ...cuda.architecture import Target
from ...cuda.tile_candidates import gathering, gathering_engines
from ...cuda.tiling import LINE, WGMMA, Tile, rasterization
from ...gemm.cuda.cost_model import BANDWIDTH, BEGINNING, CLOCKS, LAUNCH, LOADS, MOST, STORED, WORSE
from ...spec import INPUT_GRADIENT, WEIGHT_GRADIENT
from .padding import Convolution, products

# Clocks of gathering: for each line of a tile, and for each of its rows.
OF_LINE, OF_ROW = 120, 1.5
WAVES = (1, 2, 3, 4)  # waves of tasks that split-K aims at
LINES_OF_PART = 8  # lines of a split-K part, at least


def ranked(task: Convolution, target: Target, processors: int) -> list[Tile]:
    """The tiles within a factor WORSE of the best estimate, the best first.

    Empty if the GPU lacks instructions for it.
    """
    engines = gathering_engines(task.type, task.direction, target)
    tiles = [tile for engine in engines for tile in gathering(task.type, task.direction, engine, target, _boxes(task))]
    candidates = [candidate for tile in tiles for candidate in _with_split_k(task, tile, processors)]
    clocks = {candidate: estimate(task, candidate, processors) for candidate in candidates}
    near = [candidate for candidate in clocks if clocks[candidate] <= WORSE * min(clocks.values())]
    return sorted(near, key=lambda candidate: clocks[candidate])[:MOST]


def _boxes(task: Convolution) -> bool:
    """Whether TMA can load the operand that is not gathered: a line of steps must have filters of one tap."""
    whole = task.padded.filters % (LINE // task.kind.operand_bytes) == 0
    return task.direction != INPUT_GRADIENT or whole


def _with_split_k(task: Convolution, tile: Tile, processors: int) -> Iterator[Tile]:
    """The tile without split-K, and with split-K that gives all multiprocessors tasks."""
    yield tile
    (rows, columns, steps), *others = products(task)
    tiles = task.layer.groups * -(-rows // (tile.rows * tile.cluster)) * -(-columns // tile.columns)
    most = steps * task.kind.operand_bytes // LINE // LINES_OF_PART
    wanted = {min(most, wave * processors * tile.blocks // (tile.cluster * tiles)) for wave in WAVES}
    yield from (replace(tile, parts=parts) for parts in sorted(wanted) if parts > 1 and not others)


def estimate(task: Convolution, tile: Tile, processors: int) -> float:
    """Clocks of the products of a convolution, each those of its busiest multiprocessor, plus the split-K reduction."""
    kind, groups = task.kind, task.layer.groups
    clocks = 0.0
    for rows, columns, steps in products(task):
        down, across, parts, of_part, _ = rasterization(
            tile, rows, columns, steps, LINE // kind.operand_bytes, processors
        )
        tiles = -(-groups * down * across * parts * tile.cluster // processors)
        ends = -(-tiles // (2 if tile.ping_pong else tile.blocks)) * (BEGINNING + tile.rows * tile.columns / STORED)
        clocks += tiles * (of_part * kind.operand_bytes // LINE) * _of_line(task, tile) + ends
        if parts > 1:
            clocks += LAUNCH + 2 * groups * parts * rows * columns * kind.sum_bytes / (BANDWIDTH * processors)
    return clocks


def _of_line(task: Convolution, tile: Tile) -> float:
    """Clocks of a line of steps: the maximum of products and gathering."""
    share = tile.rows + tile.columns / tile.cluster
    multiplied = CLOCKS[tile.engine] * (tile.rows * tile.columns + LOADS * share)
    gathered = tile.columns if task.direction == WEIGHT_GRADIENT else tile.rows
    return max(multiplied, OF_LINE + OF_ROW * gathered if tile.engine == WGMMA else 0.0)
