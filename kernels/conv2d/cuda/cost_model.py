"""Which tiles are likely to compute a convolution fastest, by counting: pure numbers, the same on every machine."""

from collections.abc import Iterator
from dataclasses import replace

from ...cuda.architecture import Target
from ...cuda.tile_candidates import gathering, gathering_engines
from ...cuda.tiling import LINE, WGMMA, Tile, rasterization
from ...gemm.cuda.cost_model import BANDWIDTH, BEGINNING, CLOCKS, LAUNCH, LOADS, MOST, STORED, WORSE
from ...spec import INPUT_GRADIENT, WEIGHT_GRADIENT
from .padding import Convolution, products

# Clocks of the warps that gather: for each line of a tile, and for each of its rows there.
OF_LINE, OF_ROW = 120, 1.5
WAVES = (1, 2, 3, 4)  # tasks of a multiprocessor that steps are cut for
LINES_OF_PART = 8  # at least


def ranked(task: Convolution, target: Target, processors: int) -> list[Tile]:
    """The tiles that a convolution may be computed by on a GPU, the likely fastest first; those not far behind.

    Empty where the GPU has no instructions for it.
    """
    engines = gathering_engines(task.type, task.direction, target)
    tiles = [tile for engine in engines for tile in gathering(task.type, task.direction, engine, target, _boxes(task))]
    candidates = [candidate for tile in tiles for candidate in _with_split_k(task, tile, processors)]
    clocks = {candidate: estimate(task, candidate, processors) for candidate in candidates}
    near = [candidate for candidate in clocks if clocks[candidate] <= WORSE * min(clocks.values())]
    return sorted(near, key=lambda candidate: clocks[candidate])[:MOST]


def _boxes(task: Convolution) -> bool:
    """Whether the copy engine can bring the operand that is not gathered: a line of steps has filters of one tap."""
    whole = task.padded.filters % (LINE // task.kind.operand_bytes) == 0
    return task.direction != INPUT_GRADIENT or whole


def _with_split_k(task: Convolution, tile: Tile, processors: int) -> Iterator[Tile]:
    """The tile with the steps whole, and in as many parts as make tasks for all multiprocessors."""
    yield tile
    (rows, columns, steps), *others = products(task)
    tiles = task.layer.groups * -(-rows // (tile.rows * tile.cluster)) * -(-columns // tile.columns)
    most = steps * task.kind.operand_bytes // LINE // LINES_OF_PART
    wanted = {min(most, wave * processors * tile.blocks // (tile.cluster * tiles)) for wave in WAVES}
    yield from (replace(tile, parts=parts) for parts in sorted(wanted) if parts > 1 and not others)


def estimate(task: Convolution, tile: Tile, processors: int) -> float:
    """Clocks of a convolution's products, each of them those of the multiprocessor with most tiles, and of what adds
    parts up.
    """
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
    """Clocks for a line of steps: of the products, or of those who gather meanwhile."""
    share = tile.rows + tile.columns / tile.cluster
    multiplied = CLOCKS[tile.engine] * (tile.rows * tile.columns + LOADS * share)
    gathered = tile.columns if task.direction == WEIGHT_GRADIENT else tile.rows
    return max(multiplied, OF_LINE + OF_ROW * gathered if tile.engine == WGMMA else 0.0)
