"""What has to be launched for a product of two matrices in memory, by kernels/gemm/cuda/gemm.cu."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...cuda.launch import Launch, parameters, structure
from ...cuda.program import Program
from ...cuda.tensor_map import MAP, Tiled
from ...cuda.tiling import (
    BY_COLUMNS,
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

SOURCE = "gemm/cuda/gemm.cu"
JOINING = TURNING = 256  # threads
ALIGNMENT, WORD = 16, 4  # bytes
PARAMETERS = structure(
    *(("map_of_a", MAP), ("map_of_b", MAP), ("a", MATRIX), ("b", MATRIX)),
    *(("output", OUTPUT), ("order", ORDER), ("steps", "i4")),
)
JOINED = structure(("parts", "u8"), ("output", OUTPUT), ("count", "i4"))
TURNED = structure(
    *(("source", "u8"), ("target", "u8"), ("pitch", "i8"), ("words", "i8")),
    *(("lines", "i4"), ("columns", "i4"), ("aligned", "i4")),
)
Encode = Callable[[Tiled], Any]


def turns(kind: Kind, engine: str, operand: Operand) -> bool:
    """Whether an operand must lie by rows, and does not: tensor cores turn numbers of 16 bits only.

    Those of 32 bits a warp can load one by one.
    """
    return operand.layout == BY_COLUMNS and (kind.operand_bytes == 1 or (kind.name == "Tf32" and engine == WGMMA))


def by_rows(kind: Kind, operand: Operand, address: int = ALIGNMENT) -> Operand:
    """The operand as it lies when it is turned; its lines begin at multiples of 16 bytes."""
    unit = ALIGNMENT // kind.operand_bytes
    pitch = -(-operand.lines // unit) * unit
    return Operand(address, pitch, operand.columns, operand.lines, BY_ROWS)


def workspace_bytes(type: str, a: Operand, b: Operand, tile: Tile) -> int:
    """Memory for operands that are turned and for the sums of parts; none where that is not needed."""
    kind = KINDS[type]
    parts = _order(kind, a, b, tile, 1)[2]
    sums = parts * a.rows * b.rows * kind.sum_bytes if parts > 1 else 0
    return sum(turned_bytes(kind, tile.engine, operand) for operand in (a, b)) + sums


def turned_bytes(kind: Kind, engine: str, operand: Operand) -> int:
    """Of an operand that is turned for an engine; else 0."""
    turned = by_rows(kind, operand)
    return turned.lines * turned.pitch * kind.operand_bytes if turns(kind, engine, operand) else 0


def launches(
    type: str, a: Operand, b: Operand, result: Result, tile: Tile, processors: int, workspace: int, encode: Encode
) -> list[Launch]:
    """Kernels that compute `result` in this order: what turns operands, the product and, if its steps are cut, what
    adds its parts up; none if there is no result.

    `workspace` is the address of `workspace_bytes`; `encode` makes tensor maps (`tensor_map.encoded`).
    """
    if not a.rows or not b.rows:
        return []
    kind, turned = KINDS[type], []
    for operand in (a, b):
        turned.append(by_rows(kind, operand, workspace) if turns(kind, tile.engine, operand) else operand)
        workspace += turned_bytes(kind, tile.engine, operand)
    products = _products(kind, turned[0], turned[1], result, tile, processors, workspace, encode)
    pairs = [pair for pair in zip((a, b), turned, strict=True) if pair[0] is not pair[1] and a.steps]
    return [*(turning(kind, *pair, products[0].program) for pair in pairs), *products]


def turning(kind: Kind, source: Operand, target: Operand, program: Program) -> Launch:
    """`source` laid as `target`, by a kernel of the program's file."""
    words, side = target.pitch * kind.operand_bytes // WORD, LINE // kind.operand_bytes
    given: dict[str, Any] = {"source": source.address, "target": target.address, "words": words}
    given |= {name: getattr(source, name) for name in ("pitch", "lines", "columns")}
    aligned = (source.address | source.pitch * kind.operand_bytes) % WORD == 0
    squares = -(-source.lines // side) * -(-source.columns // side)
    arguments = (parameters(TURNED, **given, aligned=aligned),)
    return Launch(replace(program, name="turn"), (squares, 1, 1), TURNING, side * LINE, arguments)


def _order(kind: Kind, a: Operand, b: Operand, tile: Tile, processors: int) -> tuple[int, ...]:
    return order(tile, a.rows, b.rows, a.steps, LINE // kind.operand_bytes, processors)


def _products(
    kind: Kind, a: Operand, b: Operand, result: Result, tile: Tile, processors: int, workspace: int, encode: Encode
) -> list[Launch]:
    plan = _order(kind, a, b, tile, processors)
    if plan[2] == 1:
        return [_product(kind, a, b, result, tile, plan, processors, encode)]
    sums = Result(workspace, b.rows)
    partial = kind._replace(result_bytes=kind.sum_bytes)
    product = _product(partial, a, b, sums, tile, plan, processors, encode, kind.sums)
    joined = {"parts": workspace, "count": plan[2], "output": output(result, a.rows, b.rows, kind.result_bytes)}
    blocks = -(-a.rows * b.rows * kind.result_bytes // (16 * JOINING))
    joining = replace(product.program, name="join")
    return [product, Launch(joining, (blocks, 1, 1), JOINING, 0, (parameters(JOINED, **joined),))]


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
