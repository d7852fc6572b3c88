"""Choice of the fastest tile by measurement, cached on disk under a digest of sources and GPU.

Ranks of a node may measure and write at the same time. A writer first reads the file and adopts an entry of another
rank for the same product; two simultaneous writers may lose an entry, which is then measured again.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from .. import code_cache
from .compiler import PLACE
from .gpu import Gpu
from .program import Program, digest
from .tiling import Tile

SWITCH = "HPCAI_CUDA_TUNING"
ON, OFF = "on", "off"
# Python files that determine the candidate tiles; they belong to the digest.
PYTHON = ("cuda/tiling.py", "gemm/cuda/cost_model.py", "conv2d/cuda/cost_model.py", "cuda/tile_candidates.py")

Json = dict[str, Any]


def chosen(key: str, tiles: Sequence[Tile], file: Path | None, measured: Callable[[], Mapping[Tile, float]]) -> Tile:
    """The fastest tile for the product that `key` describes, from the file or measured now.

    The first tile without a file or alternatives, or if nothing can be measured. `measured` returns seconds.
    """
    if file is None or len(tiles) == 1:
        return tiles[0]
    found = _known(_read(file), key, tiles)
    if found is None:
        seconds = measured()
        found = _keep(file, key, tiles, seconds) if seconds else tiles[0]
    return found


def file_of(gpu: Gpu, source: str) -> Path | None:
    """The file of choices for a GPU and a source; None if tuning is off or nothing can be cached.

    ValueError if the environment variable is neither on nor off.
    """
    wanted = os.environ.get(SWITCH) or ON
    if wanted not in (ON, OFF):
        raise ValueError(f"{SWITCH}={wanted}; allowed: {ON}, {OFF}")
    folder = code_cache.folder("cuda", PLACE) if wanted == ON else None
    return folder / f"tiles-{_properties(gpu, source)[:32]}.json" if folder else None


def _properties(gpu: Gpu, source: str) -> str:
    texts = [(code_cache.HERE / name).read_text(encoding="utf-8") for name in PYTHON]
    return digest(Program(source, ""), repr(gpu), *texts)


def _known(entries: Json, key: str, tiles: Sequence[Tile]) -> Tile | None:
    """The tile of an entry, if it is among these."""
    entry = entries.get(key)
    named = entry.get("tile") if isinstance(entry, dict) else None
    return next((tile for tile in tiles if asdict(tile) == named), None)


def _read(file: Path) -> Json:
    """The cached choices; empty if the file is missing or damaged."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _keep(file: Path, key: str, tiles: Sequence[Tile], seconds: Mapping[Tile, float]) -> Tile:
    """Write the fastest tile and return it, or the one that another rank has written meanwhile."""
    entries = _read(file)
    others = _known(entries, key, tiles)
    if others is not None:
        return others
    fastest = min(seconds, key=lambda tile: seconds[tile])
    entries[key] = {"tile": asdict(fastest), "seconds": seconds[fastest], "tried": len(seconds)}
    _write(file, json.dumps(entries, indent=1, sort_keys=True))
    return fastest


def _write(file: Path, text: str) -> None:
    """Write atomically, if there is room."""
    unfinished = file.with_name(f"{file.name}.{uuid4().hex}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, file)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
