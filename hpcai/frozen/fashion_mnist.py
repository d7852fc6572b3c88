"""Fashion-MNIST read anew: the published IDX files, and the subset that comes with the package.

Source: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms",
arXiv:1708.07747. The digests are of the four files of github.com/zalandoresearch/fashion-mnist, and of the first 600
and 200 images of each class of them, classes in turn: SHA-256 over the pixels and then the labels, bytes, of a split.
No two images of the published set are equal, within a split or between both.
"""

import gzip
import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.philox import Integers
from hpcai.frozen.samples import SPLITS, TRAINING, Sample, in_turn, normalised, resized

Pixels = NDArray[np.uint8]

MEAN, STD, SIDE = 0.2860, 0.3530, 28
KNOWN = (
    {
        "training": "16d82e2b505296aa2b78bd5ea0992634f30419a4c97def7c907d154a35ac6157",
        "validation": "9f1ec356a747bfe4ebab3cfb722d3694c9ca737e2570f6f90cf31d7b6fd689d4",
    },
    {
        "training": "a56be8bfb3d10a46294c5b2bbef9358b1fc748ff4afda4b9880cf87e3035d8e7",
        "validation": "313b6f76daf53f1d0046e8faaaaa727c430d840b4e5323e002dd934e965e461d",
    },
)
_FILES = {"training": "train", "validation": "t10k"}
_IMAGES_HEADER, _LABELS_HEADER = 16, 8  # bytes


class FashionMnist:
    """Images of a folder of IDX files, or of the subset's HDF5 file.

    samples: the first training samples in turn of their classes, 0 for all in their own order. resolution: side in
    pixels, 0 as stored.
    """

    def __init__(self, path: Path, samples: int, resolution: int) -> None:
        self._path, self._samples, self._resolution = path, samples, resolution

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The samples, whole: each image of the files is read again, in ascending order."""
        stored = self._chosen[indices] if split == TRAINING and self._samples else indices
        pixels = self._pixels(split, np.unique(stored))
        for place in stored.tolist():
            x, bound = normalised(pixels[place].reshape(1, SIDE, SIDE), (MEAN,), (STD,))
            yield Sample(*resized(x, bound, self._resolution), self._labels[split][place, ...])

    def labels(self, split: str, indices: Integers) -> Integers:
        """The labels of the samples, int64[n]."""
        return self._labels[split][self._chosen[indices] if split == TRAINING and self._samples else indices]

    def augmented(self, seed: int, model: int, draws: Integers) -> None:
        """None: images are used whole."""

    def block_begins(self) -> None:
        """None: any image is as near as any other."""

    def digests(self) -> dict[str, str]:
        """SHA-256 of each split, as in KNOWN."""
        found = {}
        for split in SPLITS:
            digest = hashlib.sha256()
            for block in self._blocks(split):
                digest.update(block)
            digest.update(self._labels[split].astype(np.uint8).tobytes())
            found[split] = digest.hexdigest()
        return found

    @cached_property
    def _labels(self) -> dict[str, Integers]:
        """The labels of all stored samples, by split."""
        if self._path.is_file():
            return {split: self._subset[split][1].astype(np.int64) for split in SPLITS}
        return {split: self._idx_labels(split) for split in SPLITS}

    @cached_property
    def _chosen(self) -> Integers:
        return in_turn(self._labels[TRAINING])[: self._samples]

    @cached_property
    def _subset(self) -> dict[str, tuple[Pixels, Pixels]]:
        import h5py

        with h5py.File(self._path, "r", locking=False) as file:
            names = {"training": "train", "validation": "validation"}
            return {split: (file[f"{name}/images"][:], file[f"{name}/labels"][:]) for split, name in names.items()}

    def _idx_labels(self, split: str) -> Integers:
        with self._opened(f"{_FILES[split]}-labels-idx1-ubyte") as file:
            return np.frombuffer(file.read()[_LABELS_HEADER:], np.uint8).astype(np.int64)

    def _pixels(self, split: str, places: Integers) -> dict[int, Pixels]:
        """The images at ascending places."""
        if self._path.is_file():
            return {place: self._subset[split][0][place] for place in places.tolist()}
        found = {}
        with self._opened(f"{_FILES[split]}-images-idx3-ubyte") as file:
            for place in places.tolist():
                file.seek(_IMAGES_HEADER + place * SIDE**2)
                found[place] = np.frombuffer(file.read(SIDE**2), np.uint8)
        return found

    def _blocks(self, split: str) -> Iterator[bytes]:
        """The bytes of all images."""
        if self._path.is_file():
            yield self._subset[split][0].tobytes()
            return
        with self._opened(f"{_FILES[split]}-images-idx3-ubyte") as file:
            file.seek(_IMAGES_HEADER)
            while block := file.read(1 << 20):
                yield block

    def _opened(self, name: str) -> IO[bytes]:
        packed = self._path / f"{name}.gz"
        if packed.is_file():
            return cast(IO[bytes], gzip.open(packed))
        return (self._path / name).open("rb")
