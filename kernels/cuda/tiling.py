"""How a product of matrices is cut into tiles, and what its kernel has to be told: pure numbers, without a device.

A product is C [rows, columns] = A [rows, steps] B [steps, columns]. Both operands are given as they lie in memory:
by rows, when the steps of a row (of a column, of B) are neighbours, or by columns, when the rows (columns) of a step
are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .launch import structure

BY_ROWS, BY_COLUMNS = 0, 1
LINE = 128  # bytes of steps, or of rows, that a tile's line holds: kernels/cuda/shared_tile.cuh
SIMT, MMA, WGMMA = "SIMT", "MMA", "WGMMA"
WARPGROUP, CONSUMERS = 128, 2


class Kind(NamedTuple):
    """A type of product: its name in types.cuh, bytes of elements of operands, sums and results, torch's names."""

    name: str
    operand_bytes: int
    sum_bytes: int
    result_bytes: int
    operand: str
    result: str
    sums: str  # the type that sums are stored as where they are added up later


KINDS = {
    "fp64": Kind("Fp64", 8, 8, 8, "float64", "float64", "Fp64"),
    "fp32": Kind("Fp32", 4, 4, 4, "float32", "float32", "Fp32"),
    "tf32": Kind("Tf32", 4, 4, 4, "float32", "float32", "Fp32"),
    "bf16": Kind("Bf16", 2, 4, 2, "bfloat16", "bfloat16", "Fp32"),
    "fp16": Kind("Fp16", 2, 4, 2, "float16", "float16", "Fp32"),
    "int8": Kind("Int8", 1, 4, 4, "int8", "int32", "Int8"),
}


@dataclass(frozen=True)
class Operand:
    """Where A or B lies: lines of `columns` elements, `pitch` elements from one to the next."""

    address: int
    pitch: int
    lines: int
    columns: int
    layout: int

    def piece(self, itemsize: int) -> int:
        """Bytes, at most 16, at whose multiples all lines begin and end."""
        together = self.address | self.pitch * itemsize | self.columns * itemsize | 16
        return together & -together

    @property
    def steps(self) -> int:
        """Terms of a sum."""
        return self.columns if self.layout == BY_ROWS else self.lines

    @property
    def rows(self) -> int:
        """Rows of A, or columns of B."""
        return self.lines if self.layout == BY_ROWS else self.columns


@dataclass(frozen=True)
class Result:
    """Where C lies, and what is done to its sums: relu(scale[column] * factor * sum + bias[column] + added).

    Addresses are 0 of what is not wanted; scale and bias are float32, what is added lies as the result does. A product
    of bytes has none of these.
    """

    address: int
    pitch: int
    added: int = 0
    scale: int = 0
    bias: int = 0
    factor: float = 1.0
    relu: bool = False

    def aligned(self, itemsize: int) -> bool:
        """Whether sixteen bytes can be stored at once."""
        return (self.address | self.added | self.scale | self.bias | self.pitch * itemsize) % 16 == 0

    @property
    def plain(self) -> bool:
        """Whether it is the sums and nothing else."""
        return not (self.added or self.scale or self.bias or self.relu) and self.factor == 1


@dataclass(frozen=True)
class Tile:
    """An engine and the tile that a block computes; `parts` of the steps are computed apart and added up afterwards."""

    engine: str
    rows: int
    columns: int
    stages: int
    down: int = 2  # warps
    across: int = 2
    blocks: int = 1  # of a multiprocessor
    cluster: int = 1
    ping_pong: bool = False  # consumers compute tiles in turns, instead of sharing one
    parts: int = 1

    @property
    def threads(self) -> int:
        """Of a block."""
        return WARPGROUP * (1 + CONSUMERS) if self.engine == WGMMA else 32 * self.down * self.across

    def shared(self, kind: Kind) -> int:
        """Bytes of shared memory of a block."""
        stages, strip = self.stages * (self.rows + self.columns) * LINE, strip_bytes(self.engine, kind)
        if self.engine == WGMMA:
            return stages + 16 * self.stages + 8 * CONSUMERS + 4 * CONSUMERS * strip
        return max(stages, self.down * self.across * strip)

    def definitions(self) -> Iterator[tuple[str, Any]]:
        """What gemm.cu has to know at compile time of the tile."""
        yield f"USE_{self.engine}", 1
        yield from (("USE_ROWS", self.rows), ("USE_COLUMNS", self.columns), ("USE_STAGES", self.stages))
        if self.engine == WGMMA:
            yield from (("USE_CLUSTER", self.cluster), ("USE_PING_PONG", int(self.ping_pong)))
        else:
            yield from (("USE_DOWN", self.down), ("USE_ACROSS", self.across), ("USE_BLOCKS", self.blocks))


def strip_bytes(engine: str, kind: Kind) -> int:
    """Of a warp's part of the result on its way to memory: kernels/cuda/fragments.cuh."""
    rows = 8 * 16 // kind.operand_bytes if engine == SIMT else 16
    return rows * 40 * kind.sum_bytes


MATRIX = structure(("first", "u8"), ("pitch", "i8"), ("lines", "i4"), ("columns", "i4"))
EPILOGUE = structure(
    *((name, "u8") for name in ("first", "added", "scale", "bias")),
    *(("pitch", "i8"), ("rows", "i4"), ("columns", "i4"), ("factor", "f4")),
    *((name, "i4") for name in ("relu", "plain", "aligned")),
)
RASTERIZATION = structure(*((name, "i4") for name in ("down", "across", "parts", "steps_of_part", "band")))


def rasterization(tile: Tile, rows: int, columns: int, steps: int, line: int, processors: int) -> tuple[int, ...]:
    """As ORDER; `line` are the steps of a line. Parts are of whole lines, and as many as have some."""
    down, across = -(-rows // (tile.rows * tile.cluster)), -(-columns // tile.columns)
    lines = max(1, -(-steps // line))
    of_part = -(-lines // tile.parts)
    # As many rows as columns of C among the tiles that are computed at the same time.
    band = max(1, round(math.sqrt(processors * tile.columns / tile.rows) / tile.cluster))
    return down, across, -(-lines // of_part), of_part * line, min(band, down)


def grid(tile: Tile, rasterization: tuple[int, ...], processors: int) -> int:
    """Blocks: one a tile and part, but of those that go from tile to tile as many as run at the same time."""
    tasks = rasterization[0] * rasterization[1] * rasterization[2]
    at_once = max(1, processors // tile.cluster)
    return tile.cluster * min(tasks, at_once) if tile.engine == WGMMA else tasks


def epilogue(result: Result, rows: int, columns: int, itemsize: int, group: int = 0) -> tuple[Any, ...]:
    """As OUTPUT; `group` are the bytes from a group's columns to the next one's."""
    aligned = result.aligned(itemsize) and group % 16 == 0
    addresses = (result.address, result.added, result.scale, result.bias)
    return (*addresses, result.pitch, rows, columns, result.factor, result.relu, result.plain, aligned)
