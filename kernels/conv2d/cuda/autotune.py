"""Tile of a convolution on a GPU: the fastest, measured once, or the first of the cost model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...cuda import tuning
from ...cuda.compiler import compile_all
from ...cuda.gpu import Gpu, gpu
from ...cuda.tensor_map import encoded
from ...cuda.tiling import Result, Tile
from ...cuda.timing import seconds
from ...providers import Unavailable
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .cost_model import ranked
from .geometry import Axis
from .launches import SOURCE
from .padding import Convolution, launches, workspace_bytes

if TYPE_CHECKING:
    import torch

OPERANDS = {FORWARD: ("x", "w"), INPUT_GRADIENT: ("g", "w"), WEIGHT_GRADIENT: ("x", "g")}
RESULTS = {FORWARD: "g", INPUT_GRADIENT: "x", WEIGHT_GRADIENT: "w"}  # the array of the same size

_chosen: dict[tuple[torch.device, Convolution], Tile] = {}


def tile_of(task: Convolution, device: torch.device) -> Tile:
    """The tile of a convolution, fixed for the process. Unavailable if the GPU lacks instructions for it."""
    import torch

    if (device, task) not in _chosen:
        properties = gpu(device)
        tiles = _ranked(task, properties)
        if torch.cuda.is_current_stream_capturing():
            return tiles[0]  # a graph capture forbids measurements
        file = tuning.file_of(properties, SOURCE)
        _chosen[device, task] = tuning.chosen(
            key_of(task), tiles, file, lambda: _measured(task, tiles, device, properties)
        )
    return _chosen[device, task]


def _ranked(task: Convolution, properties: Gpu) -> list[Tile]:
    tiles = ranked(task, properties.target, properties.processors)
    if not tiles:
        capability = "{}.{}".format(*properties.target.capability)
        needed = f"{task.type} convolutions on a GPU of compute capability {capability}"
        raise Unavailable(f"{needed}; they need 8.0 or newer")
    return tiles


def key_of(task: Convolution) -> str:
    """Description of a convolution: everything its speed depends on, except the GPU."""
    layer = task.layer
    channels = f"{layer.groups} x {layer.channels} channels to {layer.filters}"
    return (
        f"{task.type} {task.direction} {layer.images} pictures, {channels}, {_side(layer.down)} x {_side(layer.across)}"
    )


def _side(axis: Axis) -> str:
    return f"({axis.size} by {axis.kernel}, stride {axis.stride}, padding {axis.padding}, dilation {axis.dilation})"


def sizes(task: Convolution) -> dict[str, int]:
    """Elements of input, weights and output gradient."""
    layer = task.layer
    pixels, channels = layer.images * layer.down.size * layer.across.size, layer.groups * layer.channels
    filters = layer.groups * layer.filters
    return {"x": pixels * channels, "w": filters * layer.taps * layer.channels, "g": layer.pixels * filters}


def _measured(task: Convolution, tiles: Sequence[Tile], device: torch.device, properties: Gpu) -> dict[Tile, float]:
    """Seconds of each tile on random numbers; empty if memory does not suffice."""
    import torch

    try:
        numbers = {name: _random(task, sizes(task)[name], device) for name in OPERANDS[task.direction]}
        kind = getattr(torch, task.kind.result)
        result = torch.empty(sizes(task)[RESULTS[task.direction]], dtype=kind, device=device)
        workspace = torch.empty(max(workspace_bytes(task, tile) for tile in tiles), dtype=torch.uint8, device=device)
        places = {name: array.data_ptr() for name, array in numbers.items()}
        target, work = Result(result.data_ptr(), pitch(task)), workspace.data_ptr()
        candidates = {
            tile: launches(task, tile, properties.processors, encoded, places, target, work) for tile in tiles
        }
        programs = {replace(launch.program, name="") for candidate in candidates.values() for launch in candidate}
        compile_all([*programs], properties.target, len(os.sched_getaffinity(0)))
        return seconds(candidates, device, properties)
    except torch.OutOfMemoryError:
        return {}


def pitch(task: Convolution) -> int:
    """Elements between rows of the result: between pixels, or between filters."""
    layer = task.layer
    if task.direction == WEIGHT_GRADIENT:
        return layer.taps * layer.channels
    return layer.groups * (layer.filters if task.direction == FORWARD else layer.channels)


def _random(task: Convolution, count: int, device: torch.device) -> torch.Tensor:
    import torch

    numbers = torch.empty(count, dtype=getattr(torch, task.kind.operand), device=device)
    generator = torch.Generator(device).manual_seed(1)
    if task.type == "int8":
        return numbers.random_(-128, 128, generator=generator)
    return numbers.normal_(generator=generator)
