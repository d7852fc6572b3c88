"""The tile that computes a product if none may be measured: chosen by a cost model, the same on every machine."""

from typing import Any

import pytest

from hpcai.kernels.cuda.architecture import CUBIN, Target
from hpcai.kernels.cuda.tiling import BY_COLUMNS, BY_ROWS, KINDS, MMA, SIMT, WGMMA, Operand, Tile
from hpcai.kernels.gemm.cuda.cost_model import MOST, WORSE, estimate, ranked
from hpcai.kernels.gemm.cuda.launches import workspace_bytes
from hpcai.kernels.gemm.cuda.tensors import tma_can_read

HOPPER, AMPERE = Target("sm_90a", CUBIN, (9, 0)), Target("sm_80", CUBIN, (8, 0))
TURING, BLACKWELL = Target("sm_75", CUBIN, (7, 5)), Target("sm_100", CUBIN, (10, 0))
PROCESSORS = 132
BIG = [(8192, 8192, 8192), (16384, 16384, 16384), (4096, 4096, 4096), (8192, 16384, 4096), (200704, 256, 2304)]


def operand_of(rows: int, steps: int, layout: int = BY_ROWS, address: int = 4096) -> Operand:
    sizes = (rows, steps) if layout == BY_ROWS else (steps, rows)
    return Operand(address, sizes[1], *sizes, layout)


def first(type: str, rows: int, columns: int, steps: int, target: Target = HOPPER, **more: Any) -> Tile:
    return ranked(type, operand_of(rows, steps, **more), operand_of(columns, steps), target, PROCESSORS)[0]


@pytest.mark.parametrize("type", ["bf16", "fp16"])
@pytest.mark.parametrize("size", BIG, ids=str)
def test_big_products_on_hopper_are_computed_by_pairs_of_blocks(type: str, size: tuple[int, int, int]) -> None:
    tile = first(type, *size)
    assert (tile.engine, tile.rows, tile.columns, tile.cluster, tile.parts) == (WGMMA, 128, 256, 2, 1)


@pytest.mark.parametrize("type", KINDS)
@pytest.mark.parametrize("target", [HOPPER, AMPERE, BLACKWELL], ids=lambda target: target.name)
def test_long_sums_for_few_results_are_cut_into_parts(type: str, target: Target) -> None:
    for rows, columns, steps in ((64, 64, 100_000), (256, 256, 1_000_000), (64, 147, 802_816)):
        tile = first(type, rows, columns, steps, target)
        assert tile.parts > 16, tile
        assert workspace_bytes(type, operand_of(rows, steps), operand_of(columns, steps), tile) < 2**26


def test_engines_depend_on_the_device_and_the_operands_addresses() -> None:
    big = (4096, 4096, 4096)
    assert [first(type, *big).engine for type in KINDS] == [SIMT, SIMT, WGMMA, WGMMA, WGMMA, WGMMA]
    assert [first(type, *big, AMPERE).engine for type in KINDS] == [SIMT, SIMT, MMA, MMA, MMA, MMA]
    assert [first(type, *big, BLACKWELL).engine for type in KINDS] == [SIMT, SIMT, MMA, MMA, MMA, MMA]
    assert first("bf16", *big, address=4098).engine == MMA
    assert not ranked("bf16", operand_of(64, 64), operand_of(64, 64), TURING, 40)
    assert first("fp32", 64, 64, 64, TURING).engine == SIMT


def test_large_mma_tiles_need_operands_that_cp_async_can_copy() -> None:
    for address, has_large in ((4096, True), (4100, True), (4098, False)):
        tiles = ranked("bf16", operand_of(8192, 8192, address=address), operand_of(8192, 8192), AMPERE, PROCESSORS)
        assert any(tile.rows * tile.columns == 128 * 256 for tile in tiles) == has_large


def test_ranked_tiles_are_within_a_factor_of_the_first() -> None:
    for rows, columns, steps in (*BIG, (1, 1, 1), (64, 64, 100_000), (1000, 2048, 64)):
        for type in KINDS:
            a, b = operand_of(rows, steps), operand_of(columns, steps)
            tiles = ranked(type, a, b, HOPPER, PROCESSORS)
            clocks = [estimate(type, a, b, tile, PROCESSORS) for tile in tiles]
            assert 1 <= len(tiles) <= MOST and len({*tiles}) == len(tiles)
            assert clocks == sorted(clocks) and clocks[-1] <= WORSE * clocks[0]


def test_transposed_operands_cost_time_and_memory() -> None:
    a, by_rows, by_columns = operand_of(512, 512), operand_of(256, 512), operand_of(256, 512, BY_COLUMNS)
    for type in ("int8", "tf32"):
        tile = ranked(type, a, by_rows, HOPPER, PROCESSORS)[0]
        assert estimate(type, a, by_columns, tile, PROCESSORS) > estimate(type, a, by_rows, tile, PROCESSORS)
        assert workspace_bytes(type, a, by_columns, tile) == 256 * 512 * KINDS[type].operand_bytes
    assert workspace_bytes("bf16", a, by_columns, tile) == 0


@pytest.mark.parametrize("type", KINDS)
def test_tma_reads_operands_at_multiples_of_sixteen_bytes(type: str) -> None:
    unit, transposed = 16 // KINDS[type].operand_bytes, type in ("int8", "tf32")
    assert tma_can_read(type, Operand(64, 4 * unit, 5, 3, BY_ROWS))
    for wrong in ((8, 4 * unit, 5, 3), (64, 4 * unit, 0, 3), (64, 4 * unit, 5, 0), (64, 0, 5, 3)):
        assert not tma_can_read(type, Operand(*wrong, BY_ROWS))
    if unit > 1:
        assert not tma_can_read(type, Operand(64, 4 * unit + 1, 5, 3, BY_ROWS))
        assert tma_can_read(type, Operand(64, 4 * unit + 1, 5, 3, BY_COLUMNS)) == transposed
