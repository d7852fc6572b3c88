"""Launches of a product of two matrices in memory, by kernels/gemm/cuda/gemm.cu."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...cuda.launch import Launch, parameters, structure
from ...cuda.program import Program
from ...cuda.tensor_map import MAP, Tiled
from ...cuda.tiling import (
    BY_COLUMNS,
    BY_ROWS,
    EPILOGUE,
    KINDS,
    LINE,
    MATRIX,
    RASTERIZATION,
    WGMMA,
    Kind,
    Operand,
    Result,
    Tile,
    epilogue,
    grid,
    rasterization,
)

SOURCE = "gemm/cuda/gemm.cu"
REDUCTION_THREADS = TRANSPOSE_THREADS = 256  # threads
ALIGNMENT, WORD = 16, 4  # bytes
PARAMETERS = structure(
    *(("map_of_a", MAP), ("map_of_b", MAP), ("a", MATRIX), ("b", MATRIX)),
    *(("epilogue", EPILOGUE), ("raster", RASTERIZATION), ("steps", "i4")),
)
SPLIT_K = structure(("parts", "u8"), ("epilogue", EPILOGUE), ("count", "i4"))
TRANSPOSITION = structure(
    *(("source", "u8"), ("target", "u8"), ("pitch", "i8"), ("words", "i8")),
    *(("lines", "i4"), ("columns", "i4"), ("aligned", "i4")),
)
Encode = Callable[[Tiled], Any]


def needs_transpose(kind: Kind, engine: str, operand: Operand) -> bool:
    """Whether an operand is MN-major and its engine cannot read it: tensor cores transpose 16-bit numbers only.

    mma.sync loads 32-bit numbers one by one.
    """
    return operand.layout == BY_COLUMNS and (kind.operand_bytes == 1 or (kind.name == "Tf32" and engine == WGMMA))


def k_major_copy(kind: Kind, operand: Operand, address: int = ALIGNMENT) -> Operand:
    """Layout of the transposed copy of an operand; lines begin at multiples of 16 bytes."""
    unit = ALIGNMENT // kind.operand_bytes
    pitch = -(-operand.lines // unit) * unit
    return Operand(address, pitch, operand.columns, operand.lines, BY_ROWS)


def workspace_bytes(type: str, a: Operand, b: Operand, tile: Tile) -> int:
    """Bytes for transposed operands and for the partial sums of split-K."""
    kind = KINDS[type]
    parts = _rasterization(kind, a, b, tile, 1)[2]
    sums = parts * a.rows * b.rows * kind.sum_bytes if parts > 1 else 0
    return sum(transposed_bytes(kind, tile.engine, operand) for operand in (a, b)) + sums


def transposed_bytes(kind: Kind, engine: str, operand: Operand) -> int:
    """Bytes of the transposed copy of an operand; 0 without one."""
    copy = k_major_copy(kind, operand)
    return copy.lines * copy.pitch * kind.operand_bytes if needs_transpose(kind, engine, operand) else 0


def launches(
    type: str, a: Operand, b: Operand, result: Result, tile: Tile, processors: int, workspace: int, encode: Encode
) -> list[Launch]:
    """Kernels that compute `result`, in order: transposes, product, split-K reduction; none for an empty result.

    `workspace` is the address of `workspace_bytes` bytes; `encode` makes tensor maps (`tensor_map.encoded`).
    """
    if not a.rows or not b.rows:
        return []
    kind, operands = KINDS[type], []
    for operand in (a, b):
        operands.append(
            k_major_copy(kind, operand, workspace) if needs_transpose(kind, tile.engine, operand) else operand
        )
        workspace += transposed_bytes(kind, tile.engine, operand)
    product_launches = _product_launches(kind, operands[0], operands[1], result, tile, processors, workspace, encode)
    pairs = [pair for pair in zip((a, b), operands, strict=True) if pair[0] is not pair[1] and a.steps]
    return [*(transpose_launch(kind, *pair, product_launches[0].program) for pair in pairs), *product_launches]


def transpose_launch(kind: Kind, source: Operand, target: Operand, program: Program) -> Launch:
    """The launch that transposes `source` into `target`, from the file of the program."""
    words, side = target.pitch * kind.operand_bytes // WORD, LINE // kind.operand_bytes
    given: dict[str, Any] = {"source": source.address, "target": target.address, "words": words}
    given |= {name: getattr(source, name) for name in ("pitch", "lines", "columns")}
    aligned = (source.address | source.pitch * kind.operand_bytes) % WORD == 0
    squares = -(-source.lines // side) * -(-source.columns // side)
    arguments = (parameters(TRANSPOSITION, **given, aligned=aligned),)
    return Launch(replace(program, name="transpose"), (squares, 1, 1), TRANSPOSE_THREADS, side * LINE, arguments)


def _rasterization(kind: Kind, a: Operand, b: Operand, tile: Tile, processors: int) -> tuple[int, ...]:
    return rasterization(tile, a.rows, b.rows, a.steps, LINE // kind.operand_bytes, processors)


def _product_launches(
    kind: Kind, a: Operand, b: Operand, result: Result, tile: Tile, processors: int, workspace: int, encode: Encode
) -> list[Launch]:
    raster = _rasterization(kind, a, b, tile, processors)
    if raster[2] == 1:
        return [_product(kind, a, b, result, tile, raster, processors, encode)]
    sums = Result(workspace, b.rows)
    partial = kind._replace(result_bytes=kind.sum_bytes)
    product = _product(partial, a, b, sums, tile, raster, processors, encode, kind.sums)
    reduction = {
        "parts": workspace,
        "count": raster[2],
        "epilogue": epilogue(result, a.rows, b.rows, kind.result_bytes),
    }
    blocks = -(-a.rows * b.rows * kind.result_bytes // (16 * REDUCTION_THREADS))
    reduce = replace(product.program, name="reduce_split_k")
    return [product, Launch(reduce, (blocks, 1, 1), REDUCTION_THREADS, 0, (parameters(SPLIT_K, **reduction),))]


def _product(
    kind: Kind,
    a: Operand,
    b: Operand,
    result: Result,
    tile: Tile,
    raster: tuple[int, ...],
    processors: int,
    encode: Encode,
    stored: str = "",
) -> Launch:
    given: dict[str, Any] = {"a": _matrix(a), "b": _matrix(b), "raster": raster, "steps": a.steps}
    if tile.engine == WGMMA:
        given["map_of_a"] = encode(tma_box(kind, a, tile.rows))
        given["map_of_b"] = encode(tma_box(kind, b, tile.columns // tile.cluster))
    given["epilogue"] = epilogue(result, a.rows, b.rows, kind.result_bytes)
    program = Program(SOURCE, "gemm", definitions(kind, a, b, tile, stored or kind.name))
    blocks = grid(tile, raster, processors)
    return Launch(program, (blocks, 1, 1), tile.threads, tile.shared(kind), (parameters(PARAMETERS, **given),))


def _matrix(operand: Operand) -> tuple[int, int, int, int]:
    return operand.address, operand.pitch, operand.lines, operand.columns


def tma_box(kind: Kind, operand: Operand, rows: int) -> Tiled:
    """Tensor map of an operand: boxes of `rows` rows and a line of steps, or a line of rows and as many steps."""
    line = LINE // kind.operand_bytes
    box = (line, rows if operand.layout == BY_ROWS else line)
    sizes, pitch = (operand.columns, operand.lines), operand.pitch * kind.operand_bytes
    element = "tfloat32" if kind.name == "Tf32" else kind.operand
    return Tiled(operand.address, element, sizes, (pitch,), box, swizzle=LINE, promotion=256)


def definitions(kind: Kind, a: Operand, b: Operand, tile: Tile, stored: str) -> tuple[tuple[str, Any], ...]:
    """Definitions of gemm.cu."""
    layouts = (("USE_A_LAYOUT", a.layout), ("USE_B_LAYOUT", b.layout))
    pieces = min(operand.piece(kind.operand_bytes) for operand in (a, b))
    piece = () if tile.engine == WGMMA else (("USE_PIECE", pieces),)
    return (("USE_TYPE", kind.name), ("USE_STORED", stored), *layouts, *piece, *tile.definitions())
