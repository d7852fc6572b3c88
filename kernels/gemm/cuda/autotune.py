"""Tile of a matrix product on a GPU: the fastest, measured once, or the first of the cost model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...cuda import tuning
from ...cuda.compiler import compile_all
from ...cuda.gpu import Gpu, gpu
from ...cuda.tensor_map import encoded
from ...cuda.tiling import BY_ROWS, KINDS, Operand, Result, Tile
from ...cuda.timing import seconds
from ...providers import Unavailable
from .cost_model import ranked
from .launches import SOURCE, launches, workspace_bytes
from .tensors import tma_can_read

if TYPE_CHECKING:
    import torch

LINE = 128  # bytes of a cache line; measurements keep the offset of a matrix in it

_chosen: dict[tuple[torch.device, str], Tile] = {}


def tile_of(type: str, a: Operand, b: Operand, device: torch.device) -> Tile:
    """The tile of a product, fixed for the process. Unavailable if the GPU lacks instructions for the type."""
    import torch

    key = device, key_of(type, a, b)
    if key not in _chosen:
        properties = gpu(device)
        tiles = _ranked(type, a, b, properties)
        if 0 in (a.rows, b.rows, a.steps) or torch.cuda.is_current_stream_capturing():
            return tiles[0]  # nothing to measure, or a graph capture forbids it
        file = tuning.file_of(properties, SOURCE)
        _chosen[key] = tuning.chosen(key[1], tiles, file, lambda: _measured(type, a, b, tiles, device, properties))
    return _chosen[key]


def _ranked(type: str, a: Operand, b: Operand, properties: Gpu) -> list[Tile]:
    tiles = ranked(type, a, b, properties.target, properties.processors)
    if not tiles:
        capability = "{}.{}".format(*properties.target.capability)
        raise Unavailable(f"{type} products on a GPU of compute capability {capability}; they need 8.0 or newer")
    return tiles


def key_of(type: str, a: Operand, b: Operand) -> str:
    """Description of a product: everything its speed depends on, except the GPU."""
    sides = []
    for operand in (a, b):
        lies = "rows" if operand.layout == BY_ROWS else "columns"
        boxes = "boxes" if tma_can_read(type, operand) else "threads"
        sides.append(f"by {lies} in {operand.piece(KINDS[type].operand_bytes)} bytes for {boxes}")
    return f"{type} {a.rows} x {b.rows} x {a.steps}: {', '.join(sides)}"


def _measured(
    type: str, a: Operand, b: Operand, tiles: Sequence[Tile], device: torch.device, properties: Gpu
) -> dict[Tile, float]:
    """Seconds of each tile on random operands laid out as A and B; empty if memory does not suffice."""
    import torch

    kind = KINDS[type]
    try:
        numbers = [_like(type, operand, device) for operand in (a, b)]
        result = torch.empty((a.rows, b.rows), dtype=getattr(torch, kind.result), device=device)
        nbytes = max(workspace_bytes(type, a, b, tile) for tile in tiles)
        workspace = torch.empty(nbytes, dtype=torch.uint8, device=device)
        (left, right), target = (lies for lies, _ in numbers), Result(result.data_ptr(), b.rows)
        work = workspace.data_ptr()
        candidates = {
            tile: launches(type, left, right, target, tile, properties.processors, work, encoded) for tile in tiles
        }
        programs = {replace(launch.program, name="") for candidate in candidates.values() for launch in candidate}
        compile_all([*programs], properties.target, len(os.sched_getaffinity(0)))
        return seconds(candidates, device, properties)
    except torch.OutOfMemoryError:
        return {}


def _like(type: str, operand: Operand, device: torch.device) -> tuple[Operand, torch.Tensor]:
    """Random numbers with the layout of an operand, from their own generator."""
    import torch

    kind = KINDS[type]
    first = operand.address % LINE // kind.operand_bytes
    count = first + (operand.lines - 1) * operand.pitch + operand.columns
    numbers = torch.empty(count, dtype=getattr(torch, kind.operand), device=device)
    generator = torch.Generator(device).manual_seed(1)
    if type == "int8":
        numbers.random_(-128, 128, generator=generator)
    else:
        numbers.normal_(generator=generator)
    return replace(operand, address=numbers.data_ptr() + first * kind.operand_bytes), numbers
