"""Tiling of a matrix product for CUDA kernels, and the structs that pass it to them; no device needed.

A product is C [rows, columns] = A [rows, steps] B [steps, columns]. An operand is by rows (K-major), when the steps of
a row of A (of a column of B) are contiguous, or by columns (MN-major), when the rows (columns) of a step are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .launch import structure

BY_ROWS, BY_COLUMNS = 0, 1
LINE = 128  # bytes of a line of a tile: kernels/cuda/shared_tile.cuh
SIMT, MMA, WGMMA = "SIMT", "MMA", "WGMMA"
WARPGROUP, CONSUMERS = 128, 2


class Kind(NamedTuple):
    """Types of a product: name in types.cuh, bytes of operand, sum and result elements, and torch's names."""

    name: str
    operand_bytes: int
    sum_bytes: int
    result_bytes: int
    operand: str
    result: str
    sums: str  # type of stored partial sums


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
    """Memory layout of A or B: lines of `columns` elements, `pitch` elements apart."""

    address: int
    pitch: int
    lines: int
    columns: int
    layout: int

    def piece(self, itemsize: int) -> int:
        """Largest alignment in bytes, at most 16, of the begin and end of all lines."""
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
    """Memory layout of C and its epilogue: relu(scale[column] * factor * sum + bias[column] + added).

    Address 0: not used. scale and bias are float32; `added` has the layout of the result. int8 products have no
    epilogue.
    """

    address: int
    pitch: int
    added: int = 0
    scale: int = 0
    bias: int = 0
    factor: float = 1.0
    relu: bool = False

    def aligned(self, itemsize: int) -> bool:
        """Whether 16-byte stores are possible."""
        return (self.address | self.added | self.scale | self.bias | self.pitch * itemsize) % 16 == 0

    @property
    def plain(self) -> bool:
        """Whether the epilogue is the identity."""
        return not (self.added or self.scale or self.bias or self.relu) and self.factor == 1


@dataclass(frozen=True)
class Tile:
    """An engine and the tile of a block; `parts`: split-K."""

    engine: str
    rows: int
    columns: int
    stages: int
    down: int = 2  # warps of a block
    across: int = 2
    blocks: int = 1  # of a multiprocessor
    cluster: int = 1
    ping_pong: bool = False  # consumers alternate on tiles instead of sharing one
    parts: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARPGROUP * (1 + CONSUMERS) if self.engine == WGMMA else 32 * self.down * self.across

    def shared(self, kind: Kind) -> int:
        """Bytes of shared memory of a block."""
        stages, strip = self.stages * (self.rows + self.columns) * LINE, strip_bytes(self.engine, kind)
        if self.engine == WGMMA:
            return stages + 16 * self.stages + 8 * CONSUMERS + 4 * CONSUMERS * strip
        return max(stages, self.down * self.across * strip)

    def definitions(self) -> Iterator[tuple[str, Any]]:
        """Definitions of the tile for the compiler."""
        yield f"USE_{self.engine}", 1
        yield from (("USE_ROWS", self.rows), ("USE_COLUMNS", self.columns), ("USE_STAGES", self.stages))
        if self.engine == WGMMA:
            yield from (("USE_CLUSTER", self.cluster), ("USE_PING_PONG", int(self.ping_pong)))
        else:
            yield from (("USE_DOWN", self.down), ("USE_ACROSS", self.across), ("USE_BLOCKS", self.blocks))


def strip_bytes(engine: str, kind: Kind) -> int:
    """Bytes of the staging buffer of a warp: kernels/cuda/fragments.cuh."""
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
    """Fields of RASTERIZATION; `line`: steps of a line. Split-K parts consist of whole lines, and none is empty."""
    down, across = -(-rows // (tile.rows * tile.cluster)), -(-columns // tile.columns)
    lines = max(1, -(-steps // line))
    of_part = -(-lines // tile.parts)
    # Concurrent tiles cover about as many rows as columns of C.
    band = max(1, round(math.sqrt(processors * tile.columns / tile.rows) / tile.cluster))
    return down, across, -(-lines // of_part), of_part * line, min(band, down)


def grid(tile: Tile, rasterization: tuple[int, ...], processors: int) -> int:
    """Blocks: one for each tile and split-K part; persistent kernels have as many as run at the same time."""
    tasks = rasterization[0] * rasterization[1] * rasterization[2]
    at_once = max(1, processors // tile.cluster)
    return tile.cluster * min(tasks, at_once) if tile.engine == WGMMA else tasks


def epilogue(result: Result, rows: int, columns: int, itemsize: int, group: int = 0) -> tuple[Any, ...]:
    """Fields of EPILOGUE; `group`: bytes between the columns of consecutive groups."""
    aligned = result.aligned(itemsize) and group % 16 == 0
    addresses = (result.address, result.added, result.scale, result.bias)
    return (*addresses, result.pitch, rows, columns, result.factor, result.relu, result.plain, aligned)
