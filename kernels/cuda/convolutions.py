"""What has to be launched for a convolution of pictures with the channels last, by kernels/conv2d/conv2d.cu.

Its three directions are products whose operands are gathered. All arrays are in one piece: pictures [images, height,
width, groups x channels], weights [filters of all groups, taps down, taps across, channels]. Channels and, in
gradients, filters of a group are whole vectors of 16 bytes; kernels/conv2d/cupy_gpu.py pads those that are not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from .launch import Launch, parameters, structure
from .matrices import Encode, boxes
from .pictures import (
    PICTURE,
    WALK,
    WEIGHTS,
    Layers,
    Reach,
    divisor,
    forward_reach,
    gradient_reaches,
    walk,
)
from .products import (
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
from .program import Program
from .tensor_map import MAP

SOURCE = "conv2d/conv2d.cu"
MOST_PHASES = 4  # of a launch
JOINING = 256  # threads
CORRELATE, WEIGH = "CORRELATE", "WEIGH"

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

    name: str
    turned: bool  # the weights lie by columns
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
    weights = Operand(w, inner, layers.groups * layers.filters, inner, BY_ROWS)
    work = Work(CORRELATE, False, layers.groups, layers.pixels, layers.filters, result, weights, fields)
    work.phases.append(_phase(asked, work, walk(layers, down, across, layers.channels), layers.pixels, inner))
    return list(_launches(asked, work))


def input_gradient(asked: Asked, layers: Layers, g: int, w: int, result: Result) -> list[Launch]:
    """dx of the gradient of y at address g and weights at w."""
    down, across, pitch, inner = layers.down, layers.across, result.pitch, layers.taps * layers.channels
    fields = {
        "picture": _picture(g, down.result, across.result, layers.groups * layers.filters),
        "other": (w, inner, layers.filters, inner),
        **_places(down.size, across.size, down.stride, across.stride, pitch),
        **_groups(layers.filters, layers.filters * inner, layers.channels),
    }
    pixels = layers.images * down.size * across.size
    weights = Operand(w, inner, layers.groups * layers.filters, inner, BY_COLUMNS)
    work = Work(CORRELATE, True, layers.groups, pixels, layers.channels, result, weights, fields)
    reaches = sorted(product(gradient_reaches(down), gradient_reaches(across)), key=_taps, reverse=True)
    if len(reaches) > 1:  # phases are computed at the same time, and none in parts
        asked = replace(asked, tile=replace(asked.tile, parts=1))
    for one, other in reaches:
        seen = walk(layers, one, other, layers.filters)
        phase = _phase(asked, work, seen, seen[0], seen[1])
        phase["weights"] = _weights(layers, one, other)
        phase["first"] = (one.first * across.size + other.first) * pitch
        work.phases.append(phase)
    return list(_launches(asked, work))


def weight_gradient(asked: Asked, layers: Layers, x: int, g: int, result: Result) -> list[Launch]:
    """dw [filters of all groups, taps, channels] of pictures at address x and the gradient of y at g."""
    down, across, inner = forward_reach(layers.down), forward_reach(layers.across), layers.taps * layers.channels
    filters = layers.groups * layers.filters
    fields = {
        "picture": _picture(x, layers.down.size, layers.across.size, layers.groups * layers.channels),
        "other": (g, filters, layers.pixels, layers.filters),
        **_groups(layers.channels, layers.filters, layers.filters * result.pitch),
    }
    gradient = Operand(g, filters, layers.pixels, filters, BY_COLUMNS)
    work = Work(WEIGH, True, layers.groups, layers.filters, inner, result, gradient, fields)
    work.phases.append(_phase(asked, work, walk(layers, down, across, layers.channels), layers.filters, layers.pixels))
    return list(_launches(asked, work))


def workspace_bytes(asked: Asked, groups: int, rows: int, columns: int, steps: int) -> int:
    """Memory for the sums of parts; none where the steps are not cut."""
    parts = order(asked.tile, rows, columns, steps, LINE // asked.kind.operand_bytes, 1)[2]
    return groups * parts * rows * columns * asked.kind.sum_bytes if parts > 1 else 0


def _launches(asked: Asked, work: Work) -> Iterator[Launch]:
    parts = work.phases[0]["order"][2]
    if parts > 1:
        yield from _in_parts(asked, work, parts)
        return
    fields = {**work.fields, "output": _output(work, work.result, asked.kind.result_bytes)}
    for first in range(0, len(work.phases), MOST_PHASES):
        yield _product(asked, work, fields, work.phases[first : first + MOST_PHASES], asked.kind.name)


def _in_parts(asked: Asked, work: Work, parts: int) -> Iterator[Launch]:
    sums = Result(asked.workspace, work.columns)
    own = {"output": _output(work, sums, asked.kind.sum_bytes), "group_of_result": parts * work.rows * work.columns}
    yield _product(asked, work, {**work.fields, **own}, work.phases, asked.kind.sums, True)
    fields = {**work.fields, "output": _output(work, work.result, asked.kind.result_bytes)}
    joined = parameters(JOINED, parts=sums.address, count=parts, p=_filled(fields, work.phases)[0])
    program = Program(SOURCE, "join", _definitions(asked, work, asked.kind.name, False))
    blocks = -(-work.rows * work.columns * asked.kind.result_bytes // (16 * JOINING))
    yield Launch(program, (blocks, work.groups, 1), JOINING, 0, (joined,))


def _product(
    asked: Asked,
    work: Work,
    fields: dict[str, Any],
    phases: Sequence[dict[str, Any]],
    stored: str,
    in_parts: bool = False,
) -> Launch:
    program = Program(SOURCE, "conv2d", _definitions(asked, work, stored, in_parts))
    if by_boxes(asked, work):
        rows = asked.tile.rows if work.name == WEIGH else asked.tile.columns // asked.tile.cluster
        fields = {**fields, "map": asked.encode(boxes(asked.kind, work.other, rows))}
    blocks = max(grid(asked.tile, phase["order"], asked.processors) for phase in phases)
    size = (blocks, work.groups, len(phases))
    return Launch(program, size, asked.tile.threads, asked.tile.shared(asked.kind), (_filled(fields, phases),))


def _filled(fields: dict[str, Any], phases: Sequence[dict[str, Any]]) -> Any:
    given = parameters(PARAMETERS, **fields)
    for place, phase in enumerate(phases):
        for name, value in phase.items():
            given["phases"][0, place][name] = value
    return given


def by_boxes(asked: Asked, work: Work) -> bool:
    """Whether the copy engine brings the other operand: where a line of steps is of one tap."""
    if asked.tile.engine != WGMMA:
        return False
    turned = work.name == CORRELATE and work.turned
    return not turned or work.other.lines // work.groups % (LINE // asked.kind.operand_bytes) == 0


def _definitions(asked: Asked, work: Work, stored: str, in_parts: bool) -> tuple[tuple[str, Any], ...]:
    of_work = ((f"USE_{work.name}", 1), ("USE_TURNED", int(work.turned)), ("USE_IN_PARTS", int(in_parts)))
    of_types = (("USE_TYPE", asked.kind.name), ("USE_STORED", stored))
    return (*of_types, *of_work, ("USE_BOXES", int(by_boxes(asked, work))), *asked.tile.definitions())


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


def _taps(reaches: tuple[Reach, Reach]) -> int:
    return reaches[0].taps * reaches[1].taps


def _weights(layers: Layers, down: Reach, across: Reach) -> tuple[Any, ...]:
    """As WEIGHTS: of the taps that a phase sees."""
    column = layers.channels
    row = layers.across.kernel * column
    skipped = down.first_tap * row + across.first_tap * column
    apart = (skipped, down.tap_step * row, across.tap_step * column)
    return divisor(layers.filters), divisor(max(1, across.taps)), *apart, _taps((down, across)) * layers.filters, column
