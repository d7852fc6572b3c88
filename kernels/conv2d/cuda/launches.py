"""Launches of a channels-last convolution by kernels/conv2d/cuda/conv2d.cu.

All three directions are products with one gathered operand. Arrays are contiguous: images [images, height, width,
groups x channels], weights [filters of all groups, taps down, taps across, channels]. Channels and, in gradients,
filters of a group are multiples of 16 bytes; padding.py ensures it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...cuda.launch import Launch, parameters, structure
from ...cuda.program import Program
from ...cuda.tensor_map import MAP
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
from ...gemm.cuda.launches import Encode, tma_box
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .geometry import GEOMETRY, IMAGE, WEIGHTS, ConvolutionLayer, forward_reach, geometry, phase_reaches, weights

SOURCE = "conv2d/cuda/conv2d.cu"
MOST_PHASES = 4  # phases of a launch
REDUCTION_THREADS = 256  # threads of a block of the split-K reduction
# Definition of each direction, and whether the weights are MN-major.
DEFINED = {
    FORWARD: ("USE_CORRELATION", 0),
    INPUT_GRADIENT: ("USE_CORRELATION", 1),
    WEIGHT_GRADIENT: ("USE_WEIGHT_GRADIENT", 1),
}

PHASE = structure(("geometry", GEOMETRY), ("weights", WEIGHTS), ("raster", RASTERIZATION), ("first", "i8"))
PARAMETERS = structure(
    *(("map", MAP), ("image", IMAGE), ("other", MATRIX), ("epilogue", EPILOGUE)),
    *((name, "i8") for name in ("image_stride", "row_stride", "pixel_stride")),
    *((name, "i8") for name in ("group_of_image", "group_of_other", "group_of_result")),
    ("phases", (PHASE, MOST_PHASES)),
)
SPLIT_K = structure(("parts", "u8"), ("count", "i4"), ("p", PARAMETERS))


@dataclass(frozen=True)
class LaunchConfig:
    """Type, tile, multiprocessors, encoder of tensor maps, and memory for the partial sums of split-K."""

    type: str
    tile: Tile
    processors: int
    encode: Encode
    workspace: int = 0

    @property
    def kind(self) -> Kind:
        """Types of the product."""
        return KINDS[self.type]


@dataclass(frozen=True)
class Work:
    """Parameters of a product without those of its phases; `rows` and `columns` are those of a group's result."""

    direction: str
    groups: int
    rows: int
    columns: int
    result: Result
    other: Operand  # of all groups, in the layout of the product
    fields: dict[str, Any]
    phases: list[dict[str, Any]] = field(default_factory=list)


def forward(config: LaunchConfig, layer: ConvolutionLayer, x: int, w: int, result: Result) -> list[Launch]:
    """y of images at address x and weights at w."""
    down, across, inner = forward_reach(layer.down), forward_reach(layer.across), layer.taps * layer.channels
    fields = {
        "image": _image(x, layer.down.size, layer.across.size, layer.groups * layer.channels),
        "other": (w, inner, layer.filters, inner),
        **_result_strides(layer.down.result, layer.across.result, 1, 1, result.pitch),
        **_group_strides(layer.channels, layer.filters * inner, layer.filters),
    }
    weights_operand = Operand(w, inner, layer.groups * layer.filters, inner, BY_ROWS)
    work = Work(FORWARD, layer.groups, layer.pixels, layer.filters, result, weights_operand, fields)
    work.phases.append(_phase(config, work, geometry(layer, down, across, layer.channels), layer.pixels, inner))
    return list(_launches(config, work))


def input_gradient(
    config: LaunchConfig, layer: ConvolutionLayer, g: int, w: int, result: Result, columns: int
) -> list[Launch]:
    """dx of the gradient of y at address g and weights at w, for the first `columns` channels of each group."""
    down, across, pitch, inner = layer.down, layer.across, result.pitch, layer.taps * layer.channels
    fields = {
        "image": _image(g, down.result, across.result, layer.groups * layer.filters),
        "other": (w, inner, layer.filters, inner),
        **_result_strides(down.size, across.size, down.stride, across.stride, pitch),
        **_group_strides(layer.filters, layer.filters * inner, columns),
    }
    pixels = layer.images * down.size * across.size
    weights_operand = Operand(w, inner, layer.groups * layer.filters, inner, BY_COLUMNS)
    work = Work(INPUT_GRADIENT, layer.groups, pixels, columns, result, weights_operand, fields)
    reaches = phase_reaches(layer)
    if len(reaches) > 1:  # phases run concurrently, without split-K
        config = replace(config, tile=replace(config.tile, parts=1))
    for one, other in reaches:
        seen = geometry(layer, one, other, layer.filters)
        phase = _phase(config, work, seen, seen[0], seen[1])
        phase["weights"] = weights(layer, one, other)
        phase["first"] = (one.first * across.size + other.first) * pitch
        work.phases.append(phase)
    return list(_launches(config, work))


def weight_gradient(
    config: LaunchConfig, layer: ConvolutionLayer, x: int, g: int, result: Result, rows: int
) -> list[Launch]:
    """dw [filters of all groups, taps, channels] of images at address x and the gradient of y at g.

    For the first `rows` filters of each group.
    """
    down, across, inner = forward_reach(layer.down), forward_reach(layer.across), layer.taps * layer.channels
    filters = layer.groups * layer.filters
    fields = {
        "image": _image(x, layer.down.size, layer.across.size, layer.groups * layer.channels),
        "other": (g, filters, layer.pixels, layer.filters),
        **_group_strides(layer.channels, layer.filters, rows * result.pitch),
    }
    gradient = Operand(g, filters, layer.pixels, filters, BY_COLUMNS)
    work = Work(WEIGHT_GRADIENT, layer.groups, rows, inner, result, gradient, fields)
    work.phases.append(_phase(config, work, geometry(layer, down, across, layer.channels), rows, layer.pixels))
    return list(_launches(config, work))


def workspace_bytes(type: str, tile: Tile, groups: int, rows: int, columns: int, steps: int) -> int:
    """Bytes for the partial sums of split-K; 0 without it."""
    kind = KINDS[type]
    parts = rasterization(tile, rows, columns, steps, LINE // kind.operand_bytes, 1)[2]
    return groups * parts * rows * columns * kind.sum_bytes if parts > 1 else 0


def _launches(config: LaunchConfig, work: Work) -> Iterator[Launch]:
    parts = work.phases[0]["raster"][2]
    if parts > 1:
        yield from _split_k_launches(config, work, parts)
        return
    fields = {**work.fields, "epilogue": _epilogue(work, work.result, config.kind.result_bytes)}
    for first in range(0, len(work.phases), MOST_PHASES):
        yield _product(config, work, fields, work.phases[first : first + MOST_PHASES])


def _split_k_launches(config: LaunchConfig, work: Work, parts: int) -> Iterator[Launch]:
    sums = Result(config.workspace, work.columns)
    partial_fields = {
        "epilogue": _epilogue(work, sums, config.kind.sum_bytes),
        "group_of_result": parts * work.rows * work.columns,
    }
    yield _product(config, work, {**work.fields, **partial_fields}, work.phases, partial=True)
    fields = {**work.fields, "epilogue": _epilogue(work, work.result, config.kind.result_bytes)}
    split_k = parameters(SPLIT_K, parts=sums.address, count=parts, p=_parameters(fields, work.phases)[0])
    multiplying = program(config.type, work.direction, config.tile, uses_tma(config, work), partial=True)
    blocks = -(-work.rows * work.columns * config.kind.result_bytes // (16 * REDUCTION_THREADS))
    yield Launch(
        replace(multiplying, name="reduce_split_k"), (blocks, work.groups, 1), REDUCTION_THREADS, 0, (split_k,)
    )


def _product(
    config: LaunchConfig,
    work: Work,
    fields: dict[str, Any],
    phases: Sequence[dict[str, Any]],
    partial: bool = False,
) -> Launch:
    kind, tile, use_tma = config.kind, config.tile, uses_tma(config, work)
    if use_tma:
        rows = tile.rows if work.direction == WEIGHT_GRADIENT else tile.columns // tile.cluster
        fields = {**fields, "map": config.encode(tma_box(kind, work.other, rows))}
    blocks = max(grid(tile, phase["raster"], config.processors) for phase in phases)
    multiplying = program(config.type, work.direction, tile, use_tma, partial)
    size = (blocks, work.groups, len(phases))
    return Launch(multiplying, size, tile.threads, tile.shared(kind), (_parameters(fields, phases),))


def _parameters(fields: dict[str, Any], phases: Sequence[dict[str, Any]]) -> Any:
    given = parameters(PARAMETERS, **fields)
    for place, phase in enumerate(phases):
        for name, value in phase.items():
            given["phases"][0, place][name] = value
    return given


def uses_tma(config: LaunchConfig, work: Work) -> bool:
    """Whether TMA loads the other operand: a line of steps must belong to one tap."""
    of_one_tap = work.other.lines // work.groups % (LINE // config.kind.operand_bytes) == 0
    return config.tile.engine == WGMMA and (work.direction != INPUT_GRADIENT or of_one_tap)


def program(type: str, direction: str, tile: Tile, use_tma: bool = True, partial: bool = False) -> Program:
    """The kernel of a direction; `use_tma`: TMA loads the operand that is not gathered."""
    kind, (name, transposed) = KINDS[type], DEFINED[direction]
    of_types = (("USE_TYPE", kind.name), ("USE_STORED", kind.sums if partial else kind.name))
    of_work = ((name, 1), ("USE_TRANSPOSED", transposed), ("USE_SPLIT_K", int(partial)))
    tma = ("USE_TMA", int(use_tma and tile.engine == WGMMA))
    return Program(SOURCE, "conv2d", (*of_types, *of_work, tma, *tile.definitions()))


def _phase(config: LaunchConfig, work: Work, seen: tuple[Any, ...], rows: int, steps: int) -> dict[str, Any]:
    line = LINE // config.kind.operand_bytes
    return {"geometry": seen, "raster": rasterization(config.tile, rows, work.columns, steps, line, config.processors)}


def _epilogue(work: Work, result: Result, itemsize: int) -> tuple[Any, ...]:
    return epilogue(result, work.rows, work.columns, itemsize, work.columns * itemsize)


def _image(address: int, height: int, width: int, channels: int) -> tuple[int, ...]:
    return address, height * width * channels, width * channels, channels, height, width


def _result_strides(height: int, width: int, down: int, across: int, pitch: int) -> dict[str, int]:
    return {"image_stride": height * width * pitch, "row_stride": down * width * pitch, "pixel_stride": across * pitch}


def _group_strides(image: int, other: int, result: int) -> dict[str, int]:
    return {"group_of_image": image, "group_of_other": other, "group_of_result": result}
