"""Launches of a convolution with any numbers of channels and filters: padding, products, removal of padding.

The kernels copy vectors of 16 bytes, so the channels of a group and, in gradients, its filters must be whole vectors.
Other operands are copied with zero padding before, and a padded weight gradient is copied without it afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...cuda.launch import Launch, parameters, structure
from ...cuda.program import Program
from ...cuda.tiling import KINDS, Kind, Result, Tile
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from . import launches as kernel_launches
from .geometry import DIVISOR, MOST_NUMBERS, ConvolutionLayer, check, divisor, phase_reaches
from .launches import Encode, LaunchConfig

SOURCE = "conv2d/cuda/repack.cu"
THREADS, MOST_BLOCKS = 256, 2**16
VECTOR, BEGINNING = 16, 256  # bytes; alignment of temporaries
ELEMENTS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
REPACKED = structure(
    *(("source", "u8"), ("target", "u8"), ("of_line", DIVISOR)),
    *((name, "i4") for name in ("vectors", "narrow", "wide")),
)


class Copy(NamedTuple):
    """Copy of lines of `narrow` elements of an array to lines of `wide` elements, or back."""

    array: str
    lines: int
    narrow: int
    wide: int


@dataclass(frozen=True)
class Convolution:
    """A direction of a convolution in a type of KINDS, with the channels and filters of its tensors.

    ValueError if coordinates, pixels or steps exceed the limits of the kernels.
    """

    type: str
    direction: str
    layer: ConvolutionLayer

    def __post_init__(self) -> None:
        check(self.padded)
        vectors = max(
            (copy.lines * copy.wide * self.kind.operand_bytes // VECTOR for copy in padding_copies(self)), default=0
        )
        if vectors > MOST_NUMBERS:
            raise ValueError(f"{self}: {vectors} vectors are copied before; up to {MOST_NUMBERS} are allowed")

    @property
    def kind(self) -> Kind:
        """Types of the product."""
        return KINDS[self.type]

    @property
    def padded(self) -> ConvolutionLayer:
        """The padded layer, as the products compute it."""
        unit = VECTOR // self.kind.operand_bytes
        filters = self.layer.filters if self.direction == FORWARD else _multiple(self.layer.filters, unit)
        return replace(self.layer, channels=_multiple(self.layer.channels, unit), filters=filters)


def _multiple(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def padding_copies(task: Convolution) -> list[Copy]:
    """Copies before the products, in order: of the arrays `x`, `w` and `g`, as far as they are operands."""
    layer, padded = task.layer, task.padded
    lines, found = layer.groups * layer.filters * layer.taps, []
    if task.direction != INPUT_GRADIENT:
        pixels = layer.images * layer.down.size * layer.across.size
        found.append(Copy("x", pixels * layer.groups, layer.channels, padded.channels))
    if task.direction != FORWARD:
        found.append(Copy("g", layer.pixels * layer.groups, layer.filters, padded.filters))
    if task.direction != WEIGHT_GRADIENT:
        found.append(Copy("w", lines, layer.channels, padded.channels))
    if task.direction == INPUT_GRADIENT:  # filters with all their taps
        filter = layer.taps * padded.channels
        found.append(Copy("w", layer.groups, layer.filters * filter, padded.filters * filter))
    return [copy for copy in found if copy.narrow != copy.wide]


def temporaries(task: Convolution, tile: Tile) -> list[int]:
    """Bytes of each padded copy, of a padded result or 0, and of partial sums or 0."""
    layer, padded = task.layer, task.padded
    sizes = [copy.lines * copy.wide * task.kind.operand_bytes for copy in padding_copies(task)]
    back = task.direction == WEIGHT_GRADIENT and layer.channels != padded.channels
    rows, columns, steps = products(task)[0]
    result = layer.groups * rows * columns * task.kind.result_bytes if back else 0
    unsplit = replace(tile, parts=1) if len(products(task)) > 1 else tile
    sums = kernel_launches.workspace_bytes(task.type, unsplit, layer.groups, rows, columns, steps)
    return [_multiple(size, BEGINNING) for size in (*sizes, result, sums)]


def products(task: Convolution) -> list[tuple[int, int, int]]:
    """Rows, columns and steps of the products of a group: one, or one for each phase."""
    layer, padded = task.layer, task.padded
    if task.direction == FORWARD:
        return [(layer.pixels, layer.filters, layer.taps * padded.channels)]
    if task.direction == WEIGHT_GRADIENT:
        return [(layer.filters, layer.taps * padded.channels, layer.pixels)]
    return [
        (layer.images * one.pixels * other.pixels, layer.channels, one.taps * other.taps * padded.filters)
        for one, other in phase_reaches(layer)
    ]


def workspace_bytes(task: Convolution, tile: Tile) -> int:
    """Bytes of all temporaries."""
    return sum(temporaries(task, tile))


def launches(
    task: Convolution,
    tile: Tile,
    processors: int,
    encode: Encode,
    addresses: dict[str, int],
    result: Result,
    workspace: int,
) -> list[Launch]:
    """Kernels that compute `result`, in order, from the arrays `x`, `w` or `g` at these addresses.

    Images are [images, height, width, channels], weights [filters, taps down, taps across, channels], contiguous.
    `workspace` is the address of `workspace_bytes` bytes; `encode` makes tensor maps (`tensor_map.encoded`).
    """
    *sizes, back, _ = temporaries(task, tile)
    places, found, free = dict(addresses), [], workspace
    for copy, size in zip(padding_copies(task), sizes, strict=True):
        found.append(repacked(task.kind.operand_bytes, "widen", places[copy.array], free, copy))
        places[copy.array], free = free, free + size
    config = LaunchConfig(task.type, tile, processors, encode, free + back)
    if not back:
        return [*found, *_products(task, config, places, result)]
    layer, padded = task.layer, task.padded
    padded_result = Result(free, layer.taps * padded.channels)
    copy = Copy("dw", layer.groups * layer.filters * layer.taps, layer.channels, padded.channels)
    last = repacked(task.kind.result_bytes, "narrow", free, result.address, copy)
    return [*found, *_products(task, config, places, padded_result), last]


def _products(task: Convolution, config: LaunchConfig, places: dict[str, int], result: Result) -> list[Launch]:
    layer, padded = task.layer, task.padded
    if task.direction == FORWARD:
        return kernel_launches.forward(config, padded, places["x"], places["w"], result)
    if task.direction == INPUT_GRADIENT:
        return kernel_launches.input_gradient(config, padded, places["g"], places["w"], result, layer.channels)
    return kernel_launches.weight_gradient(config, padded, places["x"], places["g"], result, layer.filters)


def programs() -> Iterator[Program]:
    """The kernels of all types that copy."""
    yield from (_program(name, nbytes) for name in ("widen", "narrow") for nbytes in ELEMENTS)


def _program(name: str, nbytes: int) -> Program:
    return Program(SOURCE, name, (("USE_ELEMENT", ELEMENTS[nbytes]),))


def repacked(nbytes: int, name: str, source: int, target: int, copy: Copy) -> Launch:
    """The launch of `widen` or `narrow`, for elements of `nbytes` bytes."""
    of_line = copy.wide * nbytes // VECTOR
    vectors = copy.lines * of_line
    given = {"source": source, "target": target, "of_line": divisor(of_line), "vectors": vectors}
    arguments = parameters(REPACKED, **given, narrow=copy.narrow, wide=copy.wide)
    return Launch(_program(name, nbytes), (min(MOST_BLOCKS, -(-vectors // THREADS)), 1, 1), THREADS, 0, (arguments,))
