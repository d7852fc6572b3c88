"""Format of packed climate fields: HDF5 shards of normalised fp16 frames with boxes, and the index of a set.

A shard has the datasets images float16[n, H, W, 16] (one chunk a frame, consecutive), boxes int32[n, 15, 5],
crc32 uint32[n] of each frame, and attributes. The index describes all shards, so that opening a set reads no
fields.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from msgspec import convert
from numpy.typing import NDArray

from hpcai.data.dataset_paths import WEATHER_INDEX
from hpcai.data.image_shards import TRAIN, json_digest
from hpcai.data.weather.weather_dataset import Boxes
from hpcai.errors import DataError

FORMAT = 1
PACKED = "a folder made by `python -P -m hpcai.data.pack_weather SOURCE TARGET`"
Halves = NDArray[np.float16]
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Entry:
    """A shard as described by the index: name, frames, bytes of the file, SHA-256 of the contents.

    The fields are `length` contiguous bytes from byte `begin` on; frame: SHA-256 of the bytes around them.
    """

    file: str
    samples: int
    nbytes: int
    sha256: str
    begin: int
    length: int
    frame: str


@dataclass(frozen=True)
class Index:
    """A packed set: name, shape (16, H, W), mean and std of the normalisation, faults of the boxes."""

    name: str
    source: str
    shape: Shape
    mean: tuple[float, ...]
    std: tuple[float, ...]
    faults: str
    train: tuple[Entry, ...]
    validation: tuple[Entry, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) over the shards' SHA-256, training first, in order."""
        return hashlib.sha256("".join(entry.sha256 for entry in (*self.train, *self.validation)).encode()).hexdigest()

    def split(self, name: str) -> tuple[Entry, ...]:
        """The shards of a split."""
        return self.train if name == TRAIN else self.validation


def index_text(index: Index) -> str:
    """The index as JSON, with the fingerprint of the data and a digest of itself."""
    content = json.loads(json.dumps({"format": FORMAT, "fingerprint": index.fingerprint, **asdict(index)}))
    return json.dumps({**content, "digest": json_digest(content)}, indent=1) + "\n"


def read_index(folder: Path) -> Index:
    """The index of a packed set; DataError if there is none, or it is damaged, or of another format."""
    path = folder / WEATHER_INDEX
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        sound = content.pop("digest") == json_digest(content)
        if content["format"] != FORMAT:
            raise DataError(f"{path} is of format {content['format']}; allowed: {FORMAT}")
        index = convert(content, Index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} cannot be read ({error}); allowed: {PACKED}") from error
    if not sound or content["fingerprint"] != index.fingerprint:
        raise DataError(f"{path} is damaged: its digest does not fit; allowed: {PACKED}")
    return index


class Contents:
    """SHA-256 of a shard's contents, independent of the file layout: frames in order, then boxes (little-endian)."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._digest = hashlib.sha256(f"{FORMAT} {tuple(map(int, shape))}\n".encode())

    def add(self, frame: Halves) -> None:
        """Add the next frame [H, W, 16], contiguous."""
        self._digest.update(frame.data)

    def close(self, boxes: Boxes) -> str:
        """The digest, after all frames were added."""
        self._digest.update(boxes.astype("<i4").tobytes())
        return self._digest.hexdigest()
