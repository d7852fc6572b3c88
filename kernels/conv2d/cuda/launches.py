"""What has to be launched for a convolution of pictures with the channels last, by kernels/conv2d/cuda/conv2d.cu.

Its three directions are products whose operands are gathered. All arrays are in one piece: pictures [images, height,
width, groups x channels], weights [filters of all groups, taps down, taps across, channels]. Channels and, in
gradients, filters of a group are whole vectors of 16 bytes; kernels/conv2d/cuda/padding.py makes them so.
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
from ...gemm.cuda.launches import Encode, boxes
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .geometry import PICTURE, WALK, WEIGHTS, Layers, forward_reach, phase_reaches, walk, weights

SOURCE = "conv2d/cuda/conv2d.cu"
MOST_PHASES = 4  # of a launch
JOINING = 256  # threads
# What the kernels call a direction, and whether the weights lie by columns.
DEFINED = {FORWARD: ("USE_CORRELATE", 0), INPUT_GRADIENT: ("USE_CORRELATE", 1), WEIGHT_GRADIENT: ("USE_WEIGH", 1)}

PHASE = structure(("walk", WALK), ("weights", WEIGHTS), ("order", ORDER), ("first", "i8"))
PARAMETERS = structure(
    *(("map", MAP), ("picture", PICTURE), ("other", MATRIX), ("output", OUTPUT)),
    *((name, "i8") for name in ("image", "row", "pixel")),
    *((name, "i8") for name in ("group_of_picture", "group_of_other", "group_of_result")),
    ("phases", (PHASE, MOST_PHASES)),
)
JOINED = structure(("parts", "u8"), ("count", "i4"), ("p", PARAMETERS))


@dataclass(frozen=True)
class Asked:
    """A product: its type, what is computed on, what makes tensor maps, and the memory that sums of parts may take."""

    type: str
    tile: Tile
    processors: int
    encode: Encode
    workspace: int = 0

    @property
    def kind(self) -> Kind:
        """Of the type."""
        return KINDS[self.type]


@dataclass(frozen=True)
class Work:
    """A product's parameters, apart from those of its phases; `rows` and `columns` are those of a group's result."""

    direction: str
    groups: int
    rows: int
    columns: int
    result: Result
    other: Operand  # of all groups, as the product has it
    fields: dict[str, Any]
    phases: list[dict[str, Any]] = field(default_factory=list)


def forward(asked: Asked, layers: Layers, x: int, w: int, result: Result) -> list[Launch]:
    """y of pictures at address x and weights at w."""
    down, across, inner = forward_reach(layers.down), forward_reach(layers.across), layers.taps * layers.channels
    fields = {
        "picture": _picture(x, layers.down.size, layers.across.size, layers.groups * layers.channels),
        "other": (w, inner, layers.filters, inner),
        **_places(layers.down.result, layers.across.result, 1, 1, result.pitch),
        **_groups(layers.channels, layers.filters * inner, layers.filters),
    }
    taken = Operand(w, inner, layers.groups * layers.filters, inner, BY_ROWS)
    work = Work(FORWARD, layers.groups, layers.pixels, layers.filters, result, taken, fields)
    work.phases.append(_phase(asked, work, walk(layers, down, across, layers.channels), layers.pixels, inner))
    return list(_launches(asked, work))


def input_gradient(asked: Asked, layers: Layers, g: int, w: int, result: Result, columns: int) -> list[Launch]:
    """dx of the gradient of y at address g and weights at w, of so many of the channels of each group."""
    down, across, pitch, inner = layers.down, layers.across, result.pitch, layers.taps * layers.channels
    fields = {
        "picture": _picture(g, down.result, across.result, layers.groups * layers.filters),
        "other": (w, inner, layers.filters, inner),
        **_places(down.size, across.size, down.stride, across.stride, pitch),
        **_groups(layers.filters, layers.filters * inner, columns),
    }
    pixels = layers.images * down.size * across.size
    taken = Operand(w, inner, layers.groups * layers.filters, inner, BY_COLUMNS)
    work = Work(INPUT_GRADIENT, layers.groups, pixels, columns, result, taken, fields)
    reaches = phase_reaches(layers)
    if len(reaches) > 1:  # phases are computed at the same time, and none in parts
        asked = replace(asked, tile=replace(asked.tile, parts=1))
    for one, other in reaches:
        seen = walk(layers, one, other, layers.filters)
        phase = _phase(asked, work, seen, seen[0], seen[1])
        phase["weights"] = weights(layers, one, other)
        phase["first"] = (one.first * across.size + other.first) * pitch
        work.phases.append(phase)
    return list(_launches(asked, work))


def weight_gradient(asked: Asked, layers: Layers, x: int, g: int, result: Result, rows: int) -> list[Launch]:
    """dw [filters of all groups, taps, channels] of pictures at address x and the gradient of y at g.

    It is of the first `rows` filters of each group.
    """
    down, across, inner = forward_reach(layers.down), forward_reach(layers.across), layers.taps * layers.channels
    filters = layers.groups * layers.filters
    fields = {
        "picture": _picture(x, layers.down.size, layers.across.size, layers.groups * layers.channels),
        "other": (g, filters, layers.pixels, layers.filters),
        **_groups(layers.channels, layers.filters, rows * result.pitch),
    }
    gradient = Operand(g, filters, layers.pixels, filters, BY_COLUMNS)
    work = Work(WEIGHT_GRADIENT, layers.groups, rows, inner, result, gradient, fields)
    work.phases.append(_phase(asked, work, walk(layers, down, across, layers.channels), rows, layers.pixels))
    return list(_launches(asked, work))


def workspace_bytes(type: str, tile: Tile, groups: int, rows: int, columns: int, steps: int) -> int:
    """Memory for the sums of parts; none where the steps are not cut."""
    kind = KINDS[type]
    parts = order(tile, rows, columns, steps, LINE // kind.operand_bytes, 1)[2]
    return groups * parts * rows * columns * kind.sum_bytes if parts > 1 else 0


def _launches(asked: Asked, work: Work) -> Iterator[Launch]:
    parts = work.phases[0]["order"][2]
    if parts > 1:
        yield from _in_parts(asked, work, parts)
        return
    fields = {**work.fields, "output": _output(work, work.result, asked.kind.result_bytes)}
    for first in range(0, len(work.phases), MOST_PHASES):
        yield _product(asked, work, fields, work.phases[first : first + MOST_PHASES])


def _in_parts(asked: Asked, work: Work, parts: int) -> Iterator[Launch]:
    sums = Result(asked.workspace, work.columns)
    own = {"output": _output(work, sums, asked.kind.sum_bytes), "group_of_result": parts * work.rows * work.columns}
    yield _product(asked, work, {**work.fields, **own}, work.phases, in_parts=True)
    fields = {**work.fields, "output": _output(work, work.result, asked.kind.result_bytes)}
    joined = parameters(JOINED, parts=sums.address, count=parts, p=_filled(fields, work.phases)[0])
    multiplying = program(asked.type, work.direction, asked.tile, by_boxes(asked, work), in_parts=True)
    blocks = -(-work.rows * work.columns * asked.kind.result_bytes // (16 * JOINING))
    yield Launch(replace(multiplying, name="join"), (blocks, work.groups, 1), JOINING, 0, (joined,))


def _product(
    asked: Asked,
    work: Work,
    fields: dict[str, Any],
    phases: Sequence[dict[str, Any]],
    in_parts: bool = False,
) -> Launch:
    kind, tile, boxed = asked.kind, asked.tile, by_boxes(asked, work)
    if boxed:
        rows = tile.rows if work.direction == WEIGHT_GRADIENT else tile.columns // tile.cluster
        fields = {**fields, "map": asked.encode(boxes(kind, work.other, rows))}
    blocks = max(grid(tile, phase["order"], asked.processors) for phase in phases)
    multiplying = program(asked.type, work.direction, tile, boxed, in_parts)
    size = (blocks, work.groups, len(phases))
    return Launch(multiplying, size, tile.threads, tile.shared(kind), (_filled(fields, phases),))


def _filled(fields: dict[str, Any], phases: Sequence[dict[str, Any]]) -> Any:
    given = parameters(PARAMETERS, **fields)
    for place, phase in enumerate(phases):
        for name, value in phase.items():
            given["phases"][0, place][name] = value
    return given


def by_boxes(asked: Asked, work: Work) -> bool:
    """Whether the copy engine brings the other operand: where a line of steps is of one tap."""
    of_one_tap = work.other.lines // work.groups % (LINE // asked.kind.operand_bytes) == 0
    return asked.tile.engine == WGMMA and (work.direction != INPUT_GRADIENT or of_one_tap)


def program(type: str, direction: str, tile: Tile, boxed: bool = True, in_parts: bool = False) -> Program:
    """The kernel of a direction's products; `boxed`: the copy engine brings what is not gathered."""
    kind, (name, turned) = KINDS[type], DEFINED[direction]
    of_types = (("USE_TYPE", kind.name), ("USE_STORED", kind.sums if in_parts else kind.name))
    of_work = ((name, 1), ("USE_TURNED", turned), ("USE_IN_PARTS", int(in_parts)))
    boxes = ("USE_BOXES", int(boxed and tile.engine == WGMMA))
    return Program(SOURCE, "conv2d", (*of_types, *of_work, boxes, *tile.definitions()))


def _phase(asked: Asked, work: Work, seen: tuple[Any, ...], rows: int, steps: int) -> dict[str, Any]:
    line = LINE // asked.kind.operand_bytes
    return {"walk": seen, "order": order(asked.tile, rows, work.columns, steps, line, asked.processors)}


def _output(work: Work, result: Result, itemsize: int) -> tuple[Any, ...]:
    return output(result, work.rows, work.columns, itemsize, work.columns * itemsize)


def _picture(address: int, height: int, width: int, channels: int) -> tuple[int, ...]:
    return address, height * width * channels, width * channels, channels, height, width


def _places(height: int, width: int, down: int, across: int, pitch: int) -> dict[str, int]:
    return {"image": height * width * pitch, "row": down * width * pitch, "pixel": across * pitch}


def _groups(picture: int, other: int, result: int) -> dict[str, int]:
    return {"group_of_picture": picture, "group_of_other": other, "group_of_result": result}
