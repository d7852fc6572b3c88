"""The images of a class-folder tree: SOURCE/train/CLASS/*.JPEG and SOURCE/val/CLASS/*.JPEG, and their order."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import numpy as np

from hpcai.comm.world import World, agreed, on_all_ranks
from hpcai.data.image_shards import FORMAT, IMAGE_BYTES, SIDE, TRAIN, VALIDATION, shard_name
from hpcai.data.order import EpochOrder
from hpcai.data.philox import Integers
from hpcai.errors import InputError

FOLDERS = {TRAIN: ("train",), VALIDATION: ("val", "validation")}
ENDINGS = (".jpeg", ".jpg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
SHUFFLE_SEED = 20091117  # of the training order, part of the format

Listed = tuple[str, int]  # name below its class folder, bytes


class ClassFolders(TypedDict):
    """The folder of a split and the names of the class folders in it, sent to all ranks as JSON."""

    folder: str
    classes: list[str]


@dataclass(frozen=True)
class ImageFile:
    """A file to pack: its path, its name relative to the source, its bytes, and the number of its class."""

    path: Path
    name: str
    nbytes: int
    label: int


@dataclass(frozen=True)
class Split:
    """All images of a split, class by class in the order of their names; the same on every rank."""

    name: str
    folder: Path
    classes: tuple[str, ...]  # by number
    files: tuple[tuple[int, str, int], ...]  # class, name, bytes

    def images(self, numbers: Integers) -> Iterator[ImageFile]:
        """The images with these numbers."""
        for label, name, nbytes in (self.files[number] for number in numbers.tolist()):
            below = os.path.join(self.classes[label], name)
            yield ImageFile(self.folder / below, f"{self.folder.name}/{below}", nbytes, label)


@dataclass(frozen=True)
class Shard:
    """A planned shard: a range of the order of a split; it may end up with fewer images, as some may be unreadable."""

    split: Split
    number: int
    begin: int
    end: int

    @property
    def file(self) -> str:
        """Name of the file."""
        return shard_name(self.split.name, self.number)

    @property
    def planned(self) -> int:
        """Images, readable or not."""
        return self.end - self.begin

    @property
    def length(self) -> int:
        """Bytes of the planned images."""
        return self.planned * IMAGE_BYTES

    def images(self) -> list[ImageFile]:
        """The images in the order of the shard: training shuffled, the same whatever the number of ranks."""
        numbers = np.arange(self.begin, self.end)
        if self.split.name == TRAIN:
            numbers = EpochOrder(len(self.split.files), SHUFFLE_SEED, 0)(numbers)
        return list(self.split.images(numbers))

    @cached_property
    def identity(self) -> str:
        """SHA-256 (hexadecimal) of everything that determines the contents, except the contents of the files."""
        listed = [(image.name, image.nbytes, image.label) for image in self.images()]
        text = json.dumps([FORMAT, SIDE, self.file, self.split.classes, listed])
        return hashlib.sha256(text.encode()).hexdigest()


def shards(split: Split, samples: int) -> list[Shard]:
    """The shards of a split, of `samples` images each except the last."""
    n = len(split.files)
    return [Shard(split, number, begin, min(begin + samples, n)) for number, begin in enumerate(range(0, n, samples))]


def scan(source: Path, world: World) -> tuple[Split, Split]:
    """Training and validation split of a tree. Each rank lists a part of the class folders. Collective.

    Refused on all ranks if a split or images are missing, or validation has classes that training has not.
    """
    folders = agreed(world.comm, lambda: _class_folders(source))
    classes = tuple(folders[TRAIN]["classes"])
    splits = (_scanned(name, Path(part["folder"]), part["classes"], classes, world) for name, part in folders.items())
    train, validation = splits
    return train, validation


def _class_folders(source: Path) -> dict[str, ClassFolders]:
    found: dict[str, ClassFolders] = {}
    for split, allowed in FOLDERS.items():
        folder = next((source / name for name in allowed if (source / name).is_dir()), None)
        if folder is None:
            raise InputError(
                f"{source} has no folder {' or '.join(allowed)}; allowed: one with a folder for each class"
            )
        classes = sorted(entry.name for entry in _entries(folder) if entry.is_dir())
        if not classes:
            raise InputError(f"{folder} has no class folders; allowed: {folder}/CLASS/*.JPEG")
        found[split] = {"folder": str(folder), "classes": classes}
    train, validation = (set(part["classes"]) for part in found.values())
    if not validation <= train:
        unknown = ", ".join(sorted(validation - train)[:5])
        raise InputError(f"{len(validation - train)} validation classes of {source} have no training images: {unknown}")
    if len(train) < 2:
        raise InputError(f"{source} has {len(train)} class; allowed: at least 2")
    return found


def _scanned(name: str, folder: Path, present: list[str], classes: tuple[str, ...], world: World) -> Split:
    own: dict[str, list[Listed]] = {}

    def list_own() -> None:
        for label in present[world.rank :: world.size]:
            own[label] = _listed(folder / label)

    on_all_ranks(world.comm, list_own)
    every: dict[str, list[Listed]] = {}
    for part in world.comm.allgather(own):
        every.update(part)
    numbers = {label: number for number, label in enumerate(classes)}
    files = [(numbers[label], file, nbytes) for label in sorted(every) for file, nbytes in every[label]]
    return Split(name, folder, classes, tuple(files))


def _listed(folder: Path) -> list[Listed]:
    try:
        found = sorted((entry.name, entry.stat().st_size) for entry in _entries(folder) if _is_image(entry))
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}") from error
    if not found:
        raise InputError(f"{folder} has no images; allowed: files that end in {' '.join(ENDINGS)}")
    return found


def _is_image(entry: "os.DirEntry[str]") -> bool:
    return entry.name.lower().endswith(ENDINGS) and entry.is_file()


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    """The entries of a folder that are not hidden; some archives contain a hidden file for every image."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}") from error
