"""RMS norm of a GPU without one: its kernels run on the host under every schedule, and their faults are detected."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cuda_on_host import SCHEDULES, planted, run
from sampled_parameters import fast, one_in

from hpcai.kernels.arrays import aligned
from hpcai.kernels.cuda.program import Program
from hpcai.kernels.residual import worst
from hpcai.kernels.rms_norm import Shape, cupy_gpu, reference
from hpcai.kernels.rms_norm.cupy_gpu import ADDED, FORWARD, GRADIENTS

EPS = 1e-6
PROCESSORS = 2
# One, two and four warps a row, each filled and not; fewer rows than blocks, and several for each
SIZES = [(1, 4), (7, 64), (1000, 64), (5, 80), (9, 256), (9, 260), (13, 512), (13, 516), (3, 2048), (1, 12280)]


class Arrays(NamedTuple):
    """Operands of a shape; what is added to x before the norm, and to its gradient, if anything."""

    g: Any
    x: Any
    weight: Any
    other: Any = None
    beside: Any = None


def drawn(shape: Shape, scale: float = 1.0, added: bool = False) -> Arrays:
    """Rows of different sizes, times a factor."""
    generator, size = np.random.default_rng(shape.rows), (shape.rows, shape.features)
    scales = scale * 10.0 ** generator.integers(-3, 4, (shape.rows, 1))
    parts = generator.standard_normal(size), scales * generator.standard_normal(size)
    more = [generator.standard_normal(size) for _ in range(2 * added)]
    arrays = (*parts, generator.standard_normal(size[1:]), *more)
    return Arrays(*(aligned(each.astype(np.float32)) for each in arrays))


def residual(
    shape: Shape, given: Arrays, schedule: str, libraries: Mapping[str, ctypes.CDLL] | None = None
) -> tuple[float, float]:
    """The worst elements of y and of the gradients, limit 1; kernels by name from `libraries` where these have them."""
    rows, blocks = (shape.rows, shape.features), cupy_gpu.blocks_of(shape, PROCESSORS)
    sizes = {"y": rows, "factors": rows[:1], "dx": rows, "dweight": rows[1:], "partial": (blocks, shape.features)}
    adds = given.other is not None
    sizes |= {"total": rows} if adds else {}
    made = {name: aligned(np.full(size, np.nan, np.float32)) for name, size in sizes.items()}
    operands = {name: each for name, each in given._asdict().items() if each is not None}
    addresses = {name: each.ctypes.data for name, each in {**made, **operands}.items()}
    backwards = {**addresses, "x": addresses["total"]} if adds else addresses
    launches = cupy_gpu.normalising(shape, EPS, **addresses), *cupy_gpu.differentiating(shape, blocks, **backwards)
    for launch in launches:
        run(launch, schedule, (libraries or {}).get(launch.program.name))
    if adds and not np.array_equal(made["total"], given.x + given.other):
        return np.inf, np.inf
    of_norm = made["total"] if adds else given.x
    g, x, weight = (each.astype(np.float64) for each in (given.g, of_norm, given.weight))
    beside = given.beside.astype(np.float64) if adds else 0.0
    forward = worst([reference.compared(made["y"], x, weight, EPS)])
    return forward, worst(reference.compared_gradients(made["dx"], made["dweight"], g, x, weight, EPS, beside))


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("rows", "features"), one_in(3, SIZES))
def test_every_element_is_within_its_bound(rows: int, features: int, schedule: str, added: bool) -> None:
    shape = Shape(rows, features)
    assert max(residual(shape, drawn(shape, added=added), schedule)) < 0.5


def test_blocks_and_warps_are_those_that_have_work() -> None:
    assert [cupy_gpu.warps_of(features) for features in (4, 256, 260, 512, 516, 12280)] == [1, 1, 2, 2, 4, 4]
    assert [cupy_gpu.blocks_of(Shape(rows, 64), 132) for rows in (1, 4, 5, 100_000)] == [1, 1, 2, 528]


FAULTS: dict[str, tuple[Program, str, str]] = {
    "eps left out": (FORWARD, "squares / p.features + p.eps", "squares / p.features"),
    "sum for mean": (FORWARD, "squares / p.features", "squares"),
    "weights left out": (FORWARD, "factor * weight.values[i]", "factor"),
    "other left out": (FORWARD, "a.values[i] += b.values[i]", "a.values[i] += 0.0f * b.values[i]"),
    "x normalised": (FORWARD, "p.other ? p.total : p.x", "p.x"),
    "sum not stored": (FORWARD, "store(p.total + at, vector, a);", ";"),
    "beside left out": (GRADIENTS, "a.values[i] += more", "a.values[i] += 0.0f * more"),
    "last row left out": (FORWARD, "if (row >= p.rows) return;", "if (row + 1 >= p.rows) return;"),
    "sum of some lanes": (FORWARD, "apart > 0", "apart > 1"),
    "sum of some warps": (FORWARD, "warp < (group + 1) * p.warps", "warp < group * p.warps + 1"),
    "no barrier of a row": (FORWARD, "sync_block();\n        float total", "float total"),
    "last row of gradients left out": (GRADIENTS, "first < p.rows; first", "first + 1 < p.rows; first"),
    "a row left out of the weights": (
        GRADIENTS,
        "if (row >= p.rows) return;\n        const float factor",
        "if (row >= p.rows - 1) return;\n        const float factor",
    ),
    "mean of gradients left out": (GRADIENTS, "tilt = -mean", "tilt = 0.0f * -mean"),
    "sums not cleared": (GRADIENTS, "store_shared(cell(lanes.group, vector), Piece());", ";"),
    "sums not added": (GRADIENTS, "sum.values[i] += scaled", "sum.values[i] = scaled"),
    "a group left out": (GRADIENTS, "group < lanes.groups; ++group", "group < lanes.groups - 1; ++group"),
    "turns not told apart": (GRADIENTS, "turn % 2 * WARPS", "0 * turn * WARPS"),
    "no barrier before groups are added": (GRADIENTS, "turn++);\n        sync_block();", "turn++);"),
    "last block left out": (ADDED, "there && block < p.blocks", "there && block < p.blocks - 1"),
    "a part left out": (ADDED, "other < PARTS", "other < PARTS - 1"),
    "no barrier before parts are added": (ADDED, "sync_block();\n    if (part", "if (part"),
}
OF_SUMS = ("other left out", "x normalised", "sum not stored", "beside left out")
CHOSEN = (*OF_SUMS[-1:], "eps left out", "last row of gradients left out", "sums not added")
FAULTY = Shape(41, 64), Shape(7, 260), Shape(13, 516)  # a warp a row, two and four; several rows a block


@pytest.mark.parametrize("name", fast(CHOSEN, FAULTS))
def test_a_planted_fault_is_detected(name: str, tmp_path: Path) -> None:
    program, right, wrong = FAULTS[name]
    library = {program.name: planted(program, tmp_path, right, wrong)}

    def wrongly(shape: Shape, schedule: str) -> bool:
        forward, gradients = residual(shape, drawn(shape, 1e-2, name in OF_SUMS), schedule, library)
        return (forward if program == FORWARD else gradients) > 1

    assert any(wrongly(shape, schedule) for shape in FAULTY for schedule in SCHEDULES)
