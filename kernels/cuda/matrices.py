"""What has to be launched for a product of two matrices in memory, by kernels/gemm/gemm.cu."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .launch import Launch, parameters, structure
from .products import (
    BY_ROWS,
    KINDS,
    LINE,
    MATRIX,
    ORDER,
    OUTPUT,
    WGMMA,
    Kind,
    Operand,
    Result,
    Tile,
    grid,
    order,
    output,
)
from .program import Program
from .tensor_map import MAP, Tiled

SOURCE = "gemm/gemm.cu"
JOINING = 256  # threads
PARAMETERS = structure(
    *(("map_of_a", MAP), ("map_of_b", MAP), ("a", MATRIX), ("b", MATRIX)),
    *(("output", OUTPUT), ("order", ORDER), ("steps", "i4")),
)
JOINED = structure(("parts", "u8"), ("output", OUTPUT), ("count", "i4"))
Encode = Callable[[Tiled], Any]


def workspace_bytes(type: str, a: Operand, b: Operand, tile: Tile) -> int:
    """Memory for the sums of parts; none where the steps are not cut."""
    kind = KINDS[type]
    parts = order(tile, a.rows, b.rows, a.steps, LINE // kind.operand_bytes, 1)[2]
    return parts * a.rows * b.rows * kind.sum_bytes if parts > 1 else 0


def launches(
    type: str, a: Operand, b: Operand, result: Result, tile: Tile, processors: int, workspace: int, encode: Encode
) -> list[Launch]:
    """Kernels that compute `result` in this order: the product and, if its steps are cut, what adds its parts up.

    `workspace` is the address of `workspace_bytes`; `encode` makes tensor maps (`tensor_map.encoded`).
    """
    kind = KINDS[type]
    plan = order(tile, a.rows, b.rows, a.steps, LINE // kind.operand_bytes, processors)
    if plan[2] == 1:
        return [_product(kind, a, b, result, tile, plan, processors, encode)]
    sums = Result(workspace, b.rows)
    partial = kind._replace(result_bytes=kind.sum_bytes)
    return [
        _product(partial, a, b, sums, tile, plan, processors, encode, kind.sums),
        _joined(kind, a, b, result, sums.address, plan[2], tile),
    ]


def _product(
    kind: Kind,
    a: Operand,
    b: Operand,
    result: Result,
    tile: Tile,
    plan: tuple[int, ...],
    processors: int,
    encode: Encode,
    stored: str = "",
) -> Launch:
    given: dict[str, Any] = {"a": _matrix(a), "b": _matrix(b), "order": plan, "steps": a.steps}
    if tile.engine == WGMMA:
        given["map_of_a"] = encode(boxes(kind, a, tile.rows))
        given["map_of_b"] = encode(boxes(kind, b, tile.columns // tile.cluster))
    given["output"] = output(result, a.rows, b.rows, kind.result_bytes)
    program = Program(SOURCE, "gemm", definitions(kind, a, b, tile, stored or kind.name))
    blocks = grid(tile, plan, processors)
    return Launch(program, (blocks, 1, 1), tile.threads, tile.shared(kind), (parameters(PARAMETERS, **given),))


def _matrix(operand: Operand) -> tuple[int, int, int, int]:
    return operand.address, operand.pitch, operand.lines, operand.columns


def boxes(kind: Kind, operand: Operand, rows: int) -> Tiled:
    """What the copy engine brings at once: so many rows with a line of steps, or a line of rows with as many steps."""
    line = LINE // kind.operand_bytes
    box = (line, rows if operand.layout == BY_ROWS else line)
    sizes, pitch = (operand.columns, operand.lines), operand.pitch * kind.operand_bytes
    element = "tfloat32" if kind.name == "Tf32" else kind.operand
    return Tiled(operand.address, element, sizes, (pitch,), box, swizzle=LINE, promotion=256)


def definitions(kind: Kind, a: Operand, b: Operand, tile: Tile, stored: str) -> tuple[tuple[str, Any], ...]:
    """What gemm.cu is compiled for."""
    layouts = (("USE_A_LAYOUT", a.layout), ("USE_B_LAYOUT", b.layout))
    pieces = min(operand.piece(kind.operand_bytes) for operand in (a, b))
    piece = () if tile.engine == WGMMA else (("USE_PIECE", pieces),)
    return (("USE_TYPE", kind.name), ("USE_STORED", stored), *layouts, *piece, *tile.definitions())


def _joined(kind: Kind, a: Operand, b: Operand, result: Result, sums: int, parts: int, tile: Tile) -> Launch:
    program = Program(SOURCE, "join", definitions(kind, a, b, replace(tile, parts=1), kind.name))
    given = {"parts": sums, "count": parts, "output": output(result, a.rows, b.rows, kind.result_bytes)}
    blocks = -(-a.rows * b.rows * kind.result_bytes // (16 * JOINING))
    return Launch(program, (blocks, 1, 1), JOINING, 0, (parameters(JOINED, **given),))

