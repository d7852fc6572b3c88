"""Faults planted into attention for GPUs: each exceeds the bound, or stops the kernel, under a schedule on the host."""

from pathlib import Path
from typing import NamedTuple

import pytest
from attention_on_host import computed, residual
from cuda_on_host import SCHEDULES, planted
from sampled_parameters import fast

from hpcai.kernels.attention import Shape
from hpcai.kernels.attention.cupy_gpu import MEANS, OF_KEYS, OF_QUERIES, PASS, program
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT
from hpcai.kernels.verify import drawn

SHAPES = Shape(1, 2, 150), Shape(1, 1, 150, 128)  # three tiles, the last one not filled; one chunk of features and two


class Fault(NamedTuple):
    """The kernel with the fault, a text of it, what replaces it, and which of the text's places."""

    kernel: str
    right: str
    wrong: str = ""
    place: int = 0
    dtype: str = "fp32"


BARRIER = "sync_block();"
FAULTS = {
    "mask off by one": Fault(PASS, "at.column(j) > at.row(i)", "at.column(j) > at.row(i) + 1"),
    "mask left out": Fault(PASS, "key == first)", "false)"),
    "last tile of keys left out": Fault(PASS, "key <= first; key +=", "key < first; key +="),
    "first tile of keys left out": Fault(PASS, "at.add_weighted(", "if (key > 0) at.add_weighted("),
    "output not rescaled": Fault(PASS, "Place::number(sums, i, j) *= factor;"),
    "running sum not rescaled": Fault(PASS, "total[i] *= factor;"),
    "maximum of one square": Fault(
        PASS,
        "now = fmaxf(now, load_shared<float>(cell(i, across)))",
        "now = fmaxf(now, load_shared<float>(cell(i, at.across)))",
    ),
    "sum of one square": Fault(
        PASS, "total[i] += load_shared<float>(cell(i, across));", "total[i] = load_shared<float>(cell(i, 0));"
    ),
    "sum of some lanes": Fault(PASS, "total[i] += shuffle(total[i], at.lane ^ 2 * Place::NEXT);"),
    "scale left out": Fault(PASS, "LOWEST : score * factor", "LOWEST : score"),
    "features of one chunk": Fault(PASS, "key, chunk * SIDE);", "key, 0);"),
    "chunks not committed": Fault(PASS, "commit_copies();\n        }", "}\n        commit_copies();"),
    "values not waited for": Fault(PASS, "wait_for_copies<1>();  // the values"),
    "keys not waited for": Fault(PASS, "wait_for_copies<1>();  // queries", "//"),
    "a row too many is read": Fault(PASS, "first + row < rows.places", "first + row <= rows.places"),
    "a row too many is written": Fault(PASS, "first + at.row(i) >= rows.places", "first + at.row(i) > rows.places"),
    "no barrier before the sums are shared": Fault(PASS, BARRIER, place=0),
    "no barrier before products": Fault(PASS, BARRIER, place=1),
    "no barrier before the next keys": Fault(PASS, BARRIER, place=2),
    "no barrier before powers are used": Fault(PASS, BARRIER, place=3),
    "no barrier before the next values": Fault(PASS, BARRIER, place=4),
    "mean of some lanes": Fault(MEANS, "apart > 0", "apart > 1"),
    "mean of one chunk": Fault(MEANS, "feature < p.chunks * SIDE", "feature < SIDE"),
    "mask off by one, keys": Fault(OF_KEYS, "row > column :", "row > column + 1 :"),
    "mask off by one, queries": Fault(OF_QUERIES, ": column > row)", ": column > row + 1)"),
    "last tile of queries left out": Fault(OF_KEYS, "p.places : first + SIDE", "p.places - SIDE : first + SIDE"),
    "last tile of keys left out, queries": Fault(OF_QUERIES, "p.places : first + SIDE", "p.places : first"),
    "mean left out, keys": Fault(OF_KEYS, "(gradient - means[query])", "gradient"),
    "mean left out, queries": Fault(OF_QUERIES, "(gradient - means[query])", "gradient"),
    "statistics of other queries": Fault(OF_KEYS, "BY_KEYS ? other : first)", "first)"),
    "scale left out, keys": Fault(OF_KEYS, "of_one, p.scale)", "of_one, 1.0f)"),
    "scale left out, queries": Fault(OF_QUERIES, "of_one, p.scale)", "of_one, 1.0f)"),
    "another chunk stays": Fault(OF_KEYS, "(chunk + turn) %", "(chunk + turn - 1) %"),
    "own chunk not loaded": Fault(OF_QUERIES, "begin || p.chunks > 1", "begin"),
    "no barrier before a tile is replaced": Fault(OF_QUERIES, f"{BARRIER}\n        if (own)", "if (own)"),
    "no barrier before products, keys": Fault(OF_KEYS, f"copies<0>();\n        {BARRIER}", "copies<0>();"),
    "no barrier before weights are used": Fault(OF_QUERIES, f"weights);\n        {BARRIER}", "weights);"),
    "no barrier before the next weights": Fault(OF_KEYS, f"other_two);\n                {BARRIER}", "other_two);"),
    "tiles not waited for": Fault(OF_KEYS, "wait_for_copies<0>();"),
    "mask off by one, bf16": Fault(PASS, "at.column(j) > at.row(i)", "at.column(j) > at.row(i) + 1", dtype="bf16"),
    "mask off by one, keys, fp16": Fault(OF_KEYS, "row > column :", "row > column + 1 :", dtype="fp16"),
    "output not rescaled, fp16": Fault(PASS, "Place::number(sums, i, j) *= factor;", dtype="fp16"),
    "last tile of queries left out, bf16": Fault(
        OF_KEYS, "p.places : first + SIDE", "p.places - SIDE : first + SIDE", dtype="bf16"
    ),
    "rows of a fragment, bf16": Fault(PASS, "[2 * row + column % 2]", "[row + column % 2 * 2]", dtype="bf16"),
    "rows of a warp, fp16": Fault(OF_QUERIES, "lane / 4 + 8 * index", "lane / 4 * 2 + index", dtype="fp16"),
}
CHOSEN = ("mask off by one", "last tile of queries left out", "output not rescaled", "no barrier before products")


@pytest.mark.parametrize("name", fast(CHOSEN, FAULTS))
def test_a_planted_fault_is_detected(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    library = planted(program(fault.kernel, fault.dtype), tmp_path, fault.right, fault.wrong, fault.place)
    direction = FORWARD if fault.kernel == PASS else INPUT_GRADIENT

    def wrongly(shape: Shape, schedule: str) -> bool:
        data = drawn(shape, fault.dtype, 1)
        try:
            result = computed(shape, direction, data, schedule, {fault.kernel: library})
        except AssertionError:
            return True
        return residual(shape, direction, data, result) > 1

    assert any(wrongly(shape, schedule) for shape in SHAPES for schedule in SCHEDULES)
