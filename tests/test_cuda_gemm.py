"""GEMM for GPUs, run on the host: every engine, type and layout, under three schedules, against float64.

Memory around operands and results is poisoned: reading it makes results NaN, and writing to it is detected.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import cuda_on_host
import numpy as np
import pytest
from gemm_on_host import (
    COLUMNS,
    LANES,
    LAYOUTS,
    PAIRED,
    PING_PONG,
    ROWS,
    SHARING,
    WARPS,
    WIDE_WARPS,
    Case,
    Guarded,
    Product,
    drawn,
)
from sampled_parameters import fast, one_in

from hpcai.kernels.cuda.program import Program
from hpcai.kernels.cuda.tiling import BY_ROWS, KINDS, WGMMA, Operand, Tile
from hpcai.kernels.gemm.cuda.launches import definitions, transpose_launch

TALL = Tile(WGMMA, 256, 64, 2)
SQUARE_PAIRED = Tile(WGMMA, 128, 128, 2, cluster=2)
PAIRED_PING_PONG = replace(PING_PONG, cluster=2)


def lines(type: str, count: int) -> int:
    """The steps in the given number of lines of a tile."""
    return count * 128 // KINDS[type].operand_bytes


def copied(type: str, tile: Tile, layouts: tuple[int, int] = (ROWS, ROWS), unit: int = 16, **more: Any) -> Case:
    """A product whose lines are copied in pieces of `unit` bytes, and of no more; no size fits the tiles."""
    step = unit // KINDS[type].operand_bytes
    sizes = (step * (-(-size // step) | 1) for size in (130, 70, lines(type, 4) + 3))
    return Case(type, tile, *sizes, layouts=layouts, unit=unit, **more)


def boxed(type: str, tile: Tile, layouts: tuple[int, int] = (ROWS, ROWS), **more: Any) -> Case:
    """A product whose lines are loaded by the copy engine; they begin at multiples of 16 bytes and end anywhere."""
    return Case(type, tile, 301, 73, lines(type, 4) + 3, layouts=layouts, **more)


def by_layout(make: Any, type: str, *ways: tuple[Any, ...]) -> list[Case]:
    """A case for each of the four layouts."""
    return [make(type, way[0], layouts, *way[1:]) for layouts, way in zip(LAYOUTS, ways, strict=True)]


# Pieces and tiles differ from layout to layout: features that do not depend on the layout are tried in all variants.
ENGINES = {
    "SIMT fp32": by_layout(copied, "fp32", (LANES, 16), (LANES, 8), (LANES, 4), (LANES, 16)),
    "SIMT fp64": by_layout(copied, "fp64", (LANES, 16), (LANES, 8), (LANES, 16), (LANES, 8)),
    "MMA bf16": by_layout(copied, "bf16", (WIDE_WARPS, 16), (WARPS, 8), (WARPS, 4), (WARPS, 2)),
    "MMA fp16": by_layout(copied, "fp16", (WARPS, 2), (WARPS, 16), (WIDE_WARPS, 16), (WARPS, 16)),
    "MMA tf32": by_layout(copied, "tf32", (WARPS, 16), (WARPS, 8), (WARPS, 4), (WARPS, 16)),
    "MMA int8": by_layout(copied, "int8", (WIDE_WARPS, 16), (WARPS, 2), (WARPS, 1), (WARPS, 1)),
    "WGMMA bf16": by_layout(boxed, "bf16", (PAIRED,), (PING_PONG,), (SHARING,), (SQUARE_PAIRED,)),
    "WGMMA fp16": by_layout(boxed, "fp16", (PING_PONG,), (SQUARE_PAIRED,), (TALL,), (PING_PONG,)),
    "WGMMA tf32": by_layout(boxed, "tf32", *[(PAIRED_PING_PONG,)] * 4),
    "WGMMA int8": by_layout(boxed, "int8", *[(PING_PONG,)] * 4),
}


def check(cases: Iterable[Case]) -> None:
    """Each is right under every schedule."""
    products = [Product(case) for case in cases]
    cuda_on_host.build_all(launch.program for product in products for launch in product.launches)
    for product in products:
        for schedule in cuda_on_host.SCHEDULES:
            product.run(schedule)


# The other types are computed by the same code as one of these.
FAST = ("MMA bf16",)


@pytest.mark.slow
@pytest.mark.parametrize("name", fast(FAST, ENGINES))
def test_every_layout_of_an_engine_and_a_type(name: str) -> None:
    check(ENGINES[name])


@pytest.mark.exhaustive
def test_sizes_that_fill_tiles_and_tiny_sizes() -> None:
    """The same programs as above: whole tiles, one element, one row, an empty sum, and more tiles than blocks."""
    engines = [*ENGINES["SIMT fp32"][:1], *ENGINES["MMA bf16"][:1], *ENGINES["WGMMA fp16"][:1]]
    whole = [replace(case, rows=256, columns=128, steps=lines(case.type, 2)) for case in engines]
    check([*whole, *(replace(case, processors=2) for case in whole)])
    single = [ENGINES["SIMT fp32"][2], ENGINES["MMA fp16"][0], ENGINES["MMA int8"][1], ENGINES["WGMMA fp16"][3]]
    check(replace(case, rows=rows, columns=columns, steps=steps) for case in single for rows, columns, steps in SMALL)


SMALL = [(1, 1, 1), (1, 70, 5), (65, 1, 200), (3, 5, 1)]


@pytest.mark.parametrize("case", [ENGINES["SIMT fp64"][0], ENGINES["MMA bf16"][0], ENGINES["MMA int8"][0]], ids=str)
def test_empty_sums_are_zero_and_empty_results_need_no_kernel(case: Case) -> None:
    check([replace(case, steps=0), replace(case, steps=0, given=("bias",)) if case.type != "int8" else case])
    assert not Product(replace(case, rows=0)).launches and not Product(replace(case, columns=0)).launches


PARTS = [
    boxed("bf16", replace(SHARING, parts=3)),
    boxed("bf16", replace(SHARING, parts=5), given=("bias", "added"), relu=True),
    boxed("int8", replace(PING_PONG, parts=3), (ROWS, COLUMNS)),
    copied("fp16", replace(WARPS, parts=2), unit=2, given=("scale",)),
    copied("fp32", replace(LANES, parts=4), (ROWS, COLUMNS), 8),
]


@pytest.mark.exhaustive
def test_split_sums_are_added_up_afterwards() -> None:
    check(PARTS)
    assert [len(Product(case).launches) for case in PARTS] == [2, 2, 3, 2, 2]
    more = replace(PARTS[0], tile=replace(SHARING, parts=99))
    assert Product(more).launches[1].arguments[0]["count"] == 5  # each part has a line


WAYS = [{"given": ("bias",)}, {"given": ("scale", "added"), "factor": -0.5}, {"relu": True, "factor": 3.0}]
WAYS += [{"given": ("bias", "scale", "added"), "relu": True, "factor": 0.25}]


@pytest.mark.parametrize(
    "case",
    one_in(2, [ENGINES["SIMT fp32"][1], ENGINES["SIMT fp64"][0], ENGINES["MMA bf16"][0], ENGINES["WGMMA fp16"][0]]),
    ids=lambda case: f"{case.tile.engine} {case.type}",
)
def test_every_epilogue_is_right(case: Case) -> None:
    check(replace(case, **way) for way in WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["A", "added"])
def test_relu_preserves_nan(broken: str) -> None:
    given = ("added",) if broken == "added" else ()
    for case in (ENGINES["SIMT fp32"][0], ENGINES["MMA bf16"][3], ENGINES["MMA tf32"][0], ENGINES["WGMMA bf16"][0]):
        wrong = replace(case, relu=True, given=given, broken=broken)
        check([wrong])
        assert np.isnan(Product(wrong).expected()[0]).sum() == (1 if given else case.columns)


@pytest.mark.parametrize("type", ["int8", "bf16", "tf32"])
@pytest.mark.parametrize("unit", [16, 2])
def test_matrices_are_transposed(type: str, unit: int) -> None:
    kind = KINDS[type]
    source = Guarded(drawn(np.random.default_rng(5), (131, 263), type), max(unit, kind.operand_bytes))
    target = Guarded(np.zeros((263, -(-131 * kind.operand_bytes // 16) * 16), np.uint8))
    pitch = target.pitch // kind.operand_bytes
    given = Operand(source.address, source.pitch, 131, 263, BY_ROWS)
    transposed = Operand(target.address, pitch, 263, 131, BY_ROWS)
    program = Program("gemm/cuda/gemm.cu", "gemm", definitions(kind, given, given, WARPS, "Fp32"))
    launch = transpose_launch(kind, given, transposed, program)
    for schedule in cuda_on_host.SCHEDULES:
        target.memory[:] = target.before
        cuda_on_host.run(launch, schedule)
        assert np.array_equal(target.numbers.view(source.numbers.dtype)[:, :131], source.numbers.T)
        assert not target.numbers.view(source.numbers.dtype)[:, 132:].any()
        target.check_surroundings("the transposed matrix")
