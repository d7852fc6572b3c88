"""Atomic writing of one shard of images."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from hpcai.data.image_shards import CHANNELS, FORMAT, IMAGE_BYTES, SIDE, Contents, Entry, frame, names, opened
from hpcai.data.pack.images import Refusal, read
from hpcai.data.pack.source import ImageFile, Shard
from hpcai.data.pack.target import PART, written_atomically
from hpcai.errors import DataError

_ROWS = 64  # copied at a time


@dataclass(frozen=True)
class PackedImage:
    """An image that was packed: its name, the number of its class, and the CRC-32 of its pixels."""

    name: str
    label: int
    crc32: int


def write(target: Path, shard: Shard, report: Callable[[], None]) -> None:
    """Pack the images of a shard. `report` is called after each.

    Raises DataError if a file of the source cannot be read, HpcaiError if the shard cannot be written.
    """
    path = target / shard.file
    with written_atomically(path) as part:
        kept, refused, digest = _write_images(part, shard.images(), report)
        if len(kept) < shard.planned:
            _shorten(part, len(kept))
        _write_rest(part, shard, kept, refused, digest)


def _create(part: Path, samples: int) -> h5py.File:
    file = h5py.File(part, "w", libver="earliest", alignment_threshold=1 << 16, alignment_interval=1 << 12)
    file.create_dataset("images", (samples, SIDE, SIDE, CHANNELS), np.uint8)
    return file


def _write_images(
    part: Path, images: list[ImageFile], report: Callable[[], None]
) -> tuple[list[PackedImage], list[str], Contents]:
    kept: list[PackedImage] = []
    refused: list[str] = []
    digest = Contents()
    with _create(part, len(images)) as file:
        for image in images:
            try:
                pixels = read(image.path)
            except Refusal as refusal:
                refused.append(f"{image.name}: {refusal}")
            else:
                file["images"][len(kept)] = pixels
                digest.add(pixels)
                kept.append(PackedImage(image.name, image.label, zlib.crc32(pixels.data)))
            report()
    return kept, refused, digest


def _shorten(part: Path, samples: int) -> None:
    """Drop the rows at the end that refused images left empty; a contiguous dataset cannot shrink."""
    longer = part.with_suffix(f".longer{PART}")
    part.replace(longer)
    try:
        with h5py.File(longer, "r") as old, _create(part, samples) as new:
            for begin in range(0, samples, _ROWS):
                new["images"][begin : begin + _ROWS] = old["images"][begin : min(begin + _ROWS, samples)]
    finally:
        longer.unlink()


def _write_rest(part: Path, shard: Shard, kept: list[PackedImage], refused: list[str], digest: Contents) -> None:
    labels = np.array([each.label for each in kept], np.int32)
    with h5py.File(part, "r+") as file:
        file["labels"] = labels
        file["crc32"] = np.array([each.crc32 for each in kept], np.uint32)
        file["files"] = _stored([each.name for each in kept])
        file["refused"] = _stored(refused)
        file["classes"] = _stored(list(shard.split.classes))
        file.attrs.update(
            format=FORMAT,
            split=shard.split.name,
            number=shard.number,
            source=shard.identity,
            sha256=digest.close(labels),
        )


def _stored(texts: list[str]) -> npt.NDArray[np.bytes_]:
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
    return np.array(encoded, f"S{max(map(len, encoded), default=1)}")


def entry(path: Path, shard: Shard) -> tuple[Entry, list[str]]:
    """An existing shard and its refused images; DataError if it is damaged or made from other images."""
    with opened(path) as file:
        if file.attrs.get("source") != shard.identity:
            raise DataError(
                f"{path} was made from other images, or with other options; allowed: an empty target, or one of the "
                "same source and options (delete the shards named here to make them again)"
            )
        samples, digest = len(file["labels"]), str(file.attrs["sha256"])
        refused, begin = names(file["refused"]), file["images"].id.get_offset() or 0
    around = frame(path, begin, samples * IMAGE_BYTES)
    return Entry(path.name, samples, path.stat().st_size, digest, begin, around), refused
