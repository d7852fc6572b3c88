"""Convolutions for GPUs, run on the host: every engine, type and direction, under three schedules, against float64.

Memory around operands and results is poisoned: reading it makes results NaN, and writing to it is detected.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conv2d_on_host import Case, Convolved, check, run_all
from sampled_parameters import slow, slow_one_in

from hpcai.kernels.conv2d import Shape
from hpcai.kernels.conv2d.cuda.padding import Convolution, padding_copies, temporaries
from hpcai.kernels.conv2d.cuda.tensors import layer_of
from hpcai.kernels.cuda.tiling import MMA, SIMT, WGMMA, Tile
from hpcai.kernels.spec import DIRECTIONS, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

LANES, WARPS = Tile(SIMT, 64, 64, 3), Tile(MMA, 64, 64, 3)
SHARING, PING_PONG = Tile(WGMMA, 128, 64, 4), Tile(WGMMA, 64, 64, 4, ping_pong=True)
TALL, PAIRED = Tile(WGMMA, 256, 64, 3), Tile(WGMMA, 128, 128, 3, cluster=2)
PAIRED_PING_PONG = Tile(WGMMA, 64, 128, 4, cluster=2, ping_pong=True)

PLAIN = Shape(2, 16, 9, 10, 24, (3, 3), (1, 1), (1, 1))
STEM = Shape(1, 3, 13, 12, 20, (7, 7), (2, 2), (3, 3))
POINTS = Shape(1, 32, 8, 7, 16, (1, 1), (2, 2))  # pixels that no output reads
GROUPED = Shape(2, 6, 8, 9, 9, (3, 2), (3, 2), (2, 1), (2, 1), 3)
SEPARATE = Shape(1, 5, 7, 6, 5, (3, 3), (1, 1), (1, 1), (1, 1), 5)
PADDED = Shape(2, 8, 5, 4, 8, (3, 3), (2, 1), (4, 5))  # outputs that read padding only
APART = Shape(1, 8, 11, 10, 8, (2, 2), (3, 4))  # pixels between windows
SINGLE = Shape(1, 1, 1, 1, 1, (2, 2), (1, 1), (1, 1))
LARGE = Shape(2, 64, 9, 10, 136, (3, 3), (1, 1), (1, 1))
HALVES = Shape(2, 10, 9, 10, 24, (3, 2), (1, 1), (1, 1), (1, 1), 2)
LAYERS = (PLAIN, STEM, POINTS, GROUPED, SEPARATE, PADDED, APART, SINGLE)

# Every direction of every engine and type; features that do not depend on the type are tried with one type.
ALL = [("fp32", LANES, LAYERS), ("bf16", WARPS, LAYERS), ("bf16", SHARING, LAYERS)]
SOME = [("fp64", LANES, (STEM, GROUPED)), ("fp16", WARPS, (PLAIN, GROUPED)), ("tf32", WARPS, (STEM, PADDED))]
SOME += [("fp16", PING_PONG, (STEM, LARGE))]
BYTES = [("int8", WARPS, (GROUPED, STEM)), ("int8", PING_PONG, (PLAIN, PADDED)), ("tf32", SHARING, (GROUPED, LARGE))]
PRODUCTS: list[Any] = [(*each, direction) for direction in DIRECTIONS for each in ALL + SOME]
PRODUCTS += [(*each, FORWARD) for each in BYTES]
# One engine of tensor cores, with one gradient; all engines and directions take minutes.
FAST = [(*ALL[-1], DIRECTIONS[-1])]


@pytest.mark.parametrize(
    ("type", "tile", "shapes", "direction"),
    slow(FAST, PRODUCTS),
    ids=lambda value: getattr(value, "engine", str(value)[:20]),
)
def test_every_direction_of_every_engine_and_type(type: str, tile: Tile, shapes: Any, direction: str) -> None:
    check(Case(type, direction, tile, shape) for shape in shapes)


@pytest.mark.exhaustive
@pytest.mark.parametrize("processors", slow([9], [2, 9]))
def test_tiles_of_warpgroups_and_their_tasks(processors: int) -> None:
    """More tasks than blocks, and fewer; consumers that share or alternate; blocks that share ungathered operands."""
    wide, more = replace(LARGE, channels=24, filters=128), replace(LARGE, batch=3, filters=64)
    tiles = [(TALL, FORWARD, wide), (PAIRED, FORWARD, wide), (PAIRED_PING_PONG, FORWARD, more)]
    tiles += [(TALL, INPUT_GRADIENT, more), (PAIRED, INPUT_GRADIENT, more), (PAIRED_PING_PONG, INPUT_GRADIENT, wide)]
    tiles += [(replace(TALL, rows=64, columns=256, ping_pong=True), WEIGHT_GRADIENT, LARGE)]
    check(Case("bf16", direction, tile, shape, processors=processors) for tile, direction, shape in tiles)


PARTS = [
    Case("bf16", WEIGHT_GRADIENT, replace(SHARING, parts=3), LARGE),
    Case("bf16", FORWARD, replace(SHARING, parts=4), LARGE, ("bias", "added"), relu=True),
    Case("fp32", WEIGHT_GRADIENT, replace(LANES, parts=3), HALVES),
    Case("fp32", INPUT_GRADIENT, replace(LANES, parts=2), PLAIN),
    Case("int8", FORWARD, replace(WARPS, parts=2), LARGE),
]


@pytest.mark.exhaustive
def test_split_sums_are_added_up_afterwards() -> None:
    check(PARTS)
    assert [len(Convolved(case).launches) for case in PARTS] == [2, 2, 4, 2, 2]
    phases = Convolved(Case("fp32", INPUT_GRADIENT, replace(LANES, parts=2), POINTS))
    assert len(phases.launches) == 1  # phases are never split
    assert temporaries(phases.task, phases.case.tile)[-1] == 0


WAYS: list[dict[str, Any]] = [
    {"given": ("bias",)},
    {"given": ("scale", "added"), "factor": -0.5},
    {"relu": True, "factor": 3.0},
    {"given": ("bias", "scale", "added"), "relu": True, "factor": 0.25},
]


@pytest.mark.parametrize(
    ("type", "tile", "shape"),
    slow_one_in(3, [("fp32", LANES, GROUPED), ("bf16", WARPS, PLAIN), ("bf16", SHARING, GROUPED)]),
)
def test_every_epilogue_is_right(type: str, tile: Tile, shape: Shape) -> None:
    check(Case(type, FORWARD, tile, shape, **way) for way in WAYS)


@pytest.mark.exhaustive
def test_weights_are_copied_in_boxes_if_a_line_belongs_to_one_tap() -> None:
    """Filters of a group that are whole lines, or are not: the gradient is the same in both cases."""
    for filters, boxed in ((64, 1), (128, 1), (72, 0)):
        case = Case("bf16", INPUT_GRADIENT, SHARING, replace(GROUPED, filters=2 * filters, channels=32, groups=2))
        definitions = dict(Convolved(case).launches[-1].program.definitions)
        assert definitions["USE_TMA"] == boxed
        check([case])


def test_operands_are_copied_before_only_if_necessary() -> None:
    def copied(direction: str, shape: Shape, type: str = "bf16") -> list[tuple[str, int, int]]:
        task = Convolution(type, direction, layer_of(shape))
        return [(each.array, each.narrow, each.wide) for each in padding_copies(task)]

    assert not [direction for direction in DIRECTIONS if copied(direction, PLAIN)]
    assert copied(FORWARD, STEM) == [("x", 3, 8), ("w", 3, 8)]
    assert copied(INPUT_GRADIENT, STEM) == [("g", 20, 24), ("w", 3, 8), ("w", 20 * 49 * 8, 24 * 49 * 8)]
    assert copied(WEIGHT_GRADIENT, STEM) == [("x", 3, 8), ("g", 20, 24)]
    assert copied(FORWARD, STEM, "fp32") == [("x", 3, 4), ("w", 3, 4)]
    assert copied(INPUT_GRADIENT, replace(STEM, channels=8), "fp32") == []
    assert copied(FORWARD, GROUPED) == [("x", 2, 8), ("w", 2, 8)]


def test_relu_preserves_nan() -> None:
    layer = Convolved(Case("bf16", FORWARD, WARPS, PLAIN, ("added",), relu=True))
    layer.further["added"].numbers[0, 77] = 0x7FC0
    layer.further["added"].before = layer.further["added"].memory.copy()
    run_all(layer)
    assert np.isnan(layer.expected[0]).sum() == 1


@pytest.mark.exhaustive
def test_numbers_beyond_tf32_are_rounded_by_every_engine_alike() -> None:
    """Rounded as they are loaded, after gathering and while copied in boxes: not truncated."""
    results = []
    for tile in (WARPS, SHARING):
        layer = Convolved(Case("tf32", FORWARD, tile, replace(PLAIN, channels=8)))
        for each in layer.operands.values():
            each.numbers.view(np.uint32)[...] |= 0x1FFF
            each.before = each.memory.copy()
        rounded = {name: each.numbers.copy() for name, each in layer.operands.items()}
        for name, each in layer.operands.items():
            each.numbers.view(np.uint32)[...] = (rounded[name].view(np.uint32) + 0x1000) & 0xFFFFE000
        assert np.isfinite(layer.expected[0]).all()
        for name, each in layer.operands.items():
            each.numbers[...] = rounded[name]
        run_all(layer)
        results.append(layer.result.numbers.copy())
    assert np.array_equal(*results)
