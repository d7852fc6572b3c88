"""Format of packed images: HDF5 shards of uint8 256 x 256 x 3 with labels, and the index of a set of shards.

A shard has the datasets images uint8[n, 256, 256, 3] (contiguous, so that a sample is one range of bytes), labels
int32[n], crc32 uint32[n] of each image, files, refused (names relative to the source, with reasons), classes, and
attributes.
The index describes all shards, so that opening a set reads no images.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import convert

from hpcai.data.dataset_paths import INDEX, PACKED
from hpcai.errors import DataError

if TYPE_CHECKING:
    import h5py

FORMAT = 1
SIDE = 256
CHANNELS = 3
IMAGE_BYTES = SIDE * SIDE * CHANNELS
TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)


@dataclass(frozen=True)
class Entry:
    """A shard as described by the index: name, samples, bytes of the file, SHA-256 of the contents.

    The images are contiguous from byte `begin` on; frame: SHA-256 of the bytes around them.
    """

    file: str
    samples: int
    nbytes: int
    sha256: str
    begin: int
    frame: str

    @property
    def length(self) -> int:
        """Bytes of the images."""
        return self.samples * IMAGE_BYTES


@dataclass(frozen=True)
class Index:
    """A packed set: class names by number, the shards of both splits, images refused."""

    classes: tuple[str, ...]
    train: tuple[Entry, ...]
    validation: tuple[Entry, ...]
    refused: int

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) over the shards' SHA-256, training first, in order."""
        return hashlib.sha256("".join(entry.sha256 for entry in (*self.train, *self.validation)).encode()).hexdigest()

    def split(self, name: str) -> tuple[Entry, ...]:
        """The shards of a split."""
        return self.train if name == TRAIN else self.validation

    def samples(self, name: str) -> int:
        """Samples of a split."""
        return sum(entry.samples for entry in self.split(name))


def shard_name(split: str, number: int) -> str:
    """File name of a shard, numbered from 0."""
    return f"{split}-{number:05d}.h5"


def index_text(index: Index) -> str:
    """The index as JSON, with the fingerprint of the data and a digest of itself."""
    content = {"format": FORMAT, "side": SIDE, "fingerprint": index.fingerprint, **asdict(index)}
    return json.dumps({**content, "digest": json_digest(content)}, indent=1) + "\n"


def read_index(folder: Path) -> Index:
    """The index of a packed set; DataError if there is none, or it is damaged, or of another format."""
    path = folder / INDEX
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        digest = content.pop("digest")
        if content["format"] != FORMAT or content["side"] != SIDE:
            raise DataError(
                f"{path} is of format {content['format']}, side {content['side']}; allowed: {FORMAT}, {SIDE}"
            )
        index = convert(content, Index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} cannot be read ({error}); allowed: {PACKED}") from error
    if digest != json_digest(content) or content["fingerprint"] != index.fingerprint:
        raise DataError(f"{path} is damaged: its digest does not fit; allowed: {PACKED}")
    return index


def json_digest(content: Mapping[str, object]) -> str:
    """SHA-256 (hexadecimal) of JSON content, independent of the order of names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Contents:
    """SHA-256 of a shard's contents, independent of the file layout: images in order, then labels (little-endian)."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256(f"{FORMAT} {SIDE} {CHANNELS}\n".encode())

    def add(self, images: npt.NDArray[np.uint8]) -> None:
        """Add the next images, contiguous."""
        self._digest.update(images.data)

    def close(self, labels: npt.NDArray[np.int32]) -> str:
        """The digest, after all images were added."""
        self._digest.update(labels.astype("<i4").tobytes())
        return self._digest.hexdigest()


def frame(path: Path, begin: int, length: int) -> str:
    """SHA-256 (hexadecimal) of the bytes of a shard around its images: the small metadata that HDF5 depends on."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(begin))
        file.seek(begin + length)
        digest.update(file.read())
    return digest.hexdigest()


class Framed(Protocol):
    """Fields that the index has for any kind of shard."""

    @property
    def nbytes(self) -> int: ...

    @property
    def begin(self) -> int: ...

    @property
    def length(self) -> int: ...

    @property
    def frame(self) -> str: ...

    @property
    def sha256(self) -> str: ...


def check_frame(path: Path, entry: Framed) -> None:
    """Raise DataError if the size of a shard, or the bytes around its images, differ from the index.

    HDF5 can loop endlessly over a damaged file, so this is checked before HDF5 opens it.
    """
    try:
        nbytes = path.stat().st_size
        if nbytes != entry.nbytes:
            raise DataError(f"{path} holds {nbytes} bytes; allowed: {entry.nbytes}, as the index has it")
        found = frame(path, entry.begin, entry.length)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; allowed: every shard of the index") from error
    if found != entry.frame:
        raise DataError(
            f"{path} is damaged, or another shard than the index has; allowed: that of SHA-256 {entry.sha256}"
        )


@contextmanager
def opened(path: Path) -> Iterator["h5py.File"]:
    """The HDF5 file, open for reading; its errors inside the block become DataError."""
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:  # shared file systems often cannot lock
            yield file
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read ({error}); allowed: a whole shard made by hpcai.data.pack") from error


def names(dataset: "h5py.Dataset") -> list[str]:
    """Stored names as text; bytes that are not UTF-8 are preserved."""
    return [bytes(name).decode("utf-8", "surrogateescape") for name in dataset[:]]
