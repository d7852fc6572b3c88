"""Atomic writing of one shard of packed climate fields."""

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hpcai.data.image_shards import frame, opened, shard_name
from hpcai.data.pack.target import written_atomically
from hpcai.data.weather.layout import CHANNELS
from hpcai.data.weather.read_counters import ReadCounters
from hpcai.data.weather.weather_shards import FORMAT, Contents, Entry, Halves
from hpcai.data.weather.year_file import Part, inflating_threads
from hpcai.errors import DataError

if TYPE_CHECKING:
    import h5py


@dataclass(frozen=True, eq=False)
class Scale:
    """Normalisation of fields, float32[16] each."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]

    def normalised(self, field: NDArray[np.float32]) -> Halves:
        """A field [16, H, W] as stored, float16[H, W, 16]; infinite where fp16 overflows."""
        values = (field.transpose(1, 2, 0) - self.mean) / self.std
        with np.errstate(over="ignore"):
            return values.astype("<f2", order="C")


@dataclass(frozen=True, eq=False)
class Shard:
    """A planned shard: the frames of a part of a published file with that SHA-256."""

    split: str
    number: int
    part: Part
    sha256: str
    scale: Scale

    @property
    def file(self) -> str:
        """Name of the file."""
        return shard_name(self.split, self.number)

    @property
    def length(self) -> int:
        """Bytes of its fields."""
        return 2 * len(self.part) * int(np.prod(self.part.year.shape))

    @cached_property
    def identity(self) -> str:
        """SHA-256 (hexadecimal) of everything that determines the contents."""
        scale = [values.tolist() for values in (self.scale.mean, self.scale.std)]
        text = json.dumps([FORMAT, self.file, self.sha256, self.part.begin, self.part.stop, scale])
        return hashlib.sha256(text.encode()).hexdigest()


def write(target: Path, shard: Shard, report: Callable[[], None]) -> None:
    """Pack the frames of a shard. `report` is called after each.

    Raises DataError if the source cannot be read, or fp16 cannot hold it; HpcaiError if the shard cannot be written.
    """
    import h5py

    with (
        written_atomically(target / shard.file) as part,
        # from version 1.10 of the library on, equal chunks need no index
        h5py.File(part, "w", libver=("v110", "v110")) as file,
    ):
        images = _images(file, shard)
        sums, digest = _write_frames(images, shard, report)
        file["boxes"], file["crc32"] = shard.part.boxes, np.array(sums, np.uint32)
        file.attrs.update(
            format=FORMAT,
            source=shard.identity,
            made_from=f"{shard.part.year.path.name}, frame {shard.part.begin}",
            sha256=digest.close(shard.part.boxes),
        )


def entry(path: Path, shard: Shard) -> Entry:
    """An existing shard; DataError if it is damaged or made from other fields."""
    with opened(path) as file:
        if file.attrs.get("source") != shard.identity:
            raise DataError(
                f"{path} was made from other fields, or with other options; allowed: an empty target, or one of the "
                "same source and options (delete the shards named here to make them again)"
            )
        images, digest = file["images"], str(file.attrs["sha256"])
        first, last = (images.id.get_chunk_info_by_coord((n, 0, 0, 0)).byte_offset for n in (0, len(images) - 1))
    if last - first != shard.length - shard.length // len(shard.part):
        raise DataError(f"{path} does not have its frames one after the other; allowed: a shard as it was packed")
    around = frame(path, first, shard.length)
    return Entry(path.name, len(shard.part), path.stat().st_size, digest, first, shard.length, around)


def intact(path: Path) -> bool:
    """Whether the contents of a shard match its stored SHA-256; reads all of it."""
    try:
        with opened(path) as file:
            images = file["images"]
            digest = Contents((images.shape[3], *images.shape[1:3]))
            for number in range(len(images)):
                digest.add(images[number])
            return digest.close(file["boxes"][:]) == str(file.attrs["sha256"])
    except DataError:
        return False


def _images(file: "h5py.File", shard: Shard) -> "h5py.Dataset":
    """Dataset with consecutive space for all frames, allocated at once."""
    import h5py

    channels, height, width = shard.part.year.shape
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)  # the same fields give the same file
    properties.set_chunk((1, height, width, channels))
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple((len(shard.part), height, width, channels))
    kind = h5py.h5t.py_create(np.dtype("<f2"), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, b"images", kind, space, properties))


def _write_frames(images: "h5py.Dataset", shard: Shard, report: Callable[[], None]) -> tuple[list[int], Contents]:
    year, sums, digest = shard.part.year, list[int](), Contents(shard.part.year.shape)
    for begin, stop in shard.part.blocks():
        fields = np.empty((stop - begin, *year.shape), np.float32)
        year.read(begin, stop, fields, ReadCounters(), inflating_threads())
        for number, field in enumerate(fields, begin):
            packed = shard.scale.normalised(field)
            if not np.isfinite(packed).all():
                channel = CHANNELS[int(np.argwhere(~np.isfinite(packed))[0, 2])]
                raise DataError(f"{year.path}: {channel} of frame {number} exceeds what fp16 holds, normalised")
            images[number - shard.part.begin] = packed
            digest.add(packed)
            sums.append(zlib.crc32(packed.data))
            report()
    return sums, digest
