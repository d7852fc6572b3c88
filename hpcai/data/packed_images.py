"""Packed images as a dataset: opened by their index, read sample by sample from shards, with checksums.

Only a set with the numbers of the official one is called `imagenet`. Source: Russakovsky et al., "ImageNet large scale
visual recognition challenge", IJCV 115, 2015.
"""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcai.data.bootstrap import Mask
from hpcai.data.checksummed_records import ChecksummedRecords
from hpcai.data.content_names import content_name
from hpcai.data.dataset_paths import INDEX
from hpcai.data.image_dataset import Dataset, Pixels, interleaved
from hpcai.data.image_shards import (
    CHANNELS,
    FORMAT,
    SIDE,
    TRAIN,
    VALIDATION,
    Entry,
    Index,
    check_frame,
    names,
    opened,
    read_index,
)
from hpcai.data.philox import Integers
from hpcai.data.random_crops import Crops
from hpcai.errors import DataError
from hpcai.formulas.official_rules import IMAGES

Words = NDArray[np.uint32]

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TARGET = 0.763
CROPS = Crops(side=SIDE, evaluated=224)
SAMPLES = {TRAIN: 1_281_167, VALIDATION: 50_000}
CLASSES, FIRST_CLASS, LAST_CLASS = 1000, "n01440764", "n15075141"


def open_packed(folder: Path, samples: int = 0) -> Dataset:
    """The dataset in a folder of shards, without reading images; samples as in `catalog.open_dataset`.

    Raises DataError if a shard is missing, truncated or another than the index has. The same on every rank.
    """
    index = read_index(folder)
    train, validation = (PackedSplit(folder, index.split(name), len(index.classes)) for name in (TRAIN, VALIDATION))
    fingerprint = _fingerprint(index, samples)
    return Dataset(
        name=IMAGES.dataset if is_official(index, validation.classes) else folder_name(len(index.classes), fingerprint),
        source=str(folder),
        shape=(CHANNELS, CROPS.evaluated, CROPS.evaluated),
        classes=len(index.classes),
        mean=MEAN,
        std=STD,
        target=TARGET,
        fingerprint=fingerprint,
        train=_chosen(train, samples, folder) if samples else train,
        validation=validation,
        crops=CROPS,
    )


def folder_name(classes: int, fingerprint: str) -> str:
    """The name of images in folders."""
    return content_name("imagefolder", classes, fingerprint)


def is_official(index: Index, validation_classes: Integers) -> bool:
    """Whether a set has the official numbers of samples and classes, class names, and 50 validation images a class."""
    numbers = {name: index.samples(name) for name in (TRAIN, VALIDATION)}
    ends = (len(index.classes), index.classes[0], index.classes[-1])
    counts = np.bincount(validation_classes, minlength=CLASSES)
    return numbers == SAMPLES and ends == (CLASSES, FIRST_CLASS, LAST_CLASS) and bool((counts == 50).all())


def _fingerprint(index: Index, samples: int) -> str:
    if not samples:
        return index.fingerprint
    return hashlib.sha256(f"{index.fingerprint} {samples}".encode()).hexdigest()


def files(folder: Path, samples: int = 0, needed: Mask | None = None) -> list[Path]:
    """The files of the index, of validation and of the training samples `needed` (None: all of these `samples`)."""
    index = read_index(folder)
    shards = [entry.file for entry in index.train]
    if samples or needed is not None:
        train = PackedSplit(folder, index.train, len(index.classes))
        kept = interleaved(train.classes)[:samples] if samples else np.arange(len(train))
        shards = [shards[number] for number in train.shards_of(kept if needed is None else kept[needed])]
    return [folder / name for name in (INDEX, *shards, *(entry.file for entry in index.validation))]


class PackedSplit:
    """A split in shards; images are uint8[n, 3, 256, 256], as they were packed.

    Each process opens a shard once and reads by offset, so that any number of threads may read at the same time.
    """

    def __init__(self, folder: Path, entries: Sequence[Entry], classes: int) -> None:
        self._shards = [_Shard(folder, entry, classes) for entry in entries]
        self._ends = np.cumsum([shard.samples for shard in self._shards])
        self.classes = np.concatenate([np.empty(0, np.int64), *(shard.labels for shard in self._shards)])

    def __len__(self) -> int:
        return len(self.classes)

    def labels(self, indices: Integers) -> Integers:
        """Classes at the indices, int64[n]."""
        return self.classes[indices]

    def images(self, indices: Integers) -> Pixels:
        """Images at the indices, uint8[n, 3, 256, 256], channels last in memory; read in ascending order."""
        pixels = np.empty((len(indices), SIDE, SIDE, CHANNELS), np.uint8)
        for place in np.argsort(indices, kind="stable").tolist():
            number = int(np.searchsorted(self._ends, indices[place], side="right"))
            shard = self._shards[number]
            shard.read(int(indices[place] - self._ends[number]) + shard.samples, pixels[place])
        return pixels.transpose(0, 3, 1, 2)

    def checksums(self) -> Words:
        """CRC-32 of each image, uint32[n]."""
        return np.concatenate([np.empty(0, np.uint32), *(shard.records.checksums for shard in self._shards)])

    @property
    def nbytes(self) -> int:
        """Bytes of the classes, of all and by shard, and of the checksums; the images stay in the files."""
        return self.classes.nbytes + sum(shard.nbytes for shard in self._shards)

    def shards_of(self, indices: Integers) -> list[int]:
        """Numbers of the shards that contain these samples."""
        return [*map(int, np.unique(np.searchsorted(self._ends, indices, side="right")))]


class _Shard:
    """One shard: labels, checksums and offsets of its samples."""

    def __init__(self, folder: Path, entry: Entry, classes: int) -> None:
        self.path, self.samples = folder / entry.file, entry.samples
        check_frame(self.path, entry)
        with opened(self.path) as file:
            images = file["images"]
            stored = (file.attrs["format"], file.attrs["sha256"], images.shape, images.dtype, images.chunks)
            self.labels = file["labels"][:].astype(np.int64)
            self._sums = file["crc32"][:]
        if stored != (FORMAT, entry.sha256, (entry.samples, SIDE, SIDE, CHANNELS), np.uint8, None):
            raise DataError(f"{self.path} is another shard than the index has; allowed: that of SHA-256 {entry.sha256}")
        if not len(self.labels) == len(self._sums) == entry.samples or not self._in_range(classes):
            raise DataError(f"{self.path} has labels that do not fit its images; allowed: a shard as it was packed")
        source = partial(_source, self.path)
        self.records = ChecksummedRecords(
            self.path, entry.begin, self._sums, source, "python -P -m hpcai.data.pack --check"
        )

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory."""
        return self.labels.nbytes + self._sums.nbytes

    def _in_range(self, classes: int) -> bool:
        return self.samples == 0 or 0 <= self.labels.min() <= self.labels.max() < classes

    def read(self, number: int, pixels: Pixels) -> None:
        """Read one sample into uint8[256, 256, 3]; DataError if that fails or the checksum differs."""
        self.records.read(number, pixels.data.cast("B"))


def _source(path: Path, number: int) -> str:
    with opened(path) as file:
        return names(file["files"])[number]


class Selection:
    """Selected samples of a split."""

    def __init__(self, split: PackedSplit, chosen: Integers) -> None:
        self._split, self._chosen = split, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def images(self, indices: Integers) -> Pixels:
        """Images at the indices."""
        return self._split.images(self._chosen[indices])

    def labels(self, indices: Integers) -> Integers:
        """Classes at the indices, int64[n]."""
        return self._split.labels(self._chosen[indices])

    def checksums(self) -> Words:
        """CRC-32 of each image, uint32[n]."""
        return self._split.checksums()[self._chosen]

    @property
    def nbytes(self) -> int:
        """Bytes of the split and of the choice."""
        return self._split.nbytes + self._chosen.nbytes


def _chosen(train: PackedSplit, samples: int, folder: Path) -> Selection:
    if not 2 <= samples <= len(train):
        raise DataError(f"{samples} training samples of {folder}; allowed: 0 (all) or 2 to {len(train)}")
    return Selection(train, interleaved(train.classes)[:samples])
