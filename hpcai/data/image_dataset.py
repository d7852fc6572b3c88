"""Image datasets: two splits of images with labels, and their description."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hpcai.data.philox import Integers
from hpcai.record.dataset import Dataset as Description

if TYPE_CHECKING:
    import torch

    from hpcai.data.random_crops import Crops

Pixels = npt.NDArray[np.uint8]


class Split(Protocol):
    """Images and labels by index; reading the same index twice gives the same bytes."""

    def __len__(self) -> int:
        """Number of samples."""

    def images(self, indices: Integers) -> Pixels:
        """Images at the indices (int64), uint8[n, C, H, W]."""

    def labels(self, indices: Integers) -> Integers:
        """Classes at the indices (int64), int64[n]."""

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory."""


@runtime_checkable
class GeneratingSplit(Split, Protocol):
    """A split that can generate its images on the device."""

    def maker(self, device: "torch.device") -> "Callable[[Integers], torch.Tensor] | None":
        """Function that generates images by index on that device, uint8[n, C, H, W]; None if the host makes them."""


@dataclass(frozen=True, eq=False)
class ArraySplit:
    """A split in memory: pixels uint8[n, C, H, W], classes int64[n]."""

    pixels: Pixels
    classes: Integers

    def __len__(self) -> int:
        return len(self.classes)

    def images(self, indices: Integers) -> Pixels:
        """Images at the indices, uint8[n, C, H, W]."""
        return self.pixels[indices]

    def labels(self, indices: Integers) -> Integers:
        """Classes at the indices, int64[n]."""
        return self.classes[indices]

    @property
    def nbytes(self) -> int:
        """Bytes of images and classes."""
        return self.pixels.nbytes + self.classes.nbytes

    def balanced(self, samples: int) -> "ArraySplit":
        """A split of the first `samples` in class-interleaved order, so that the classes stay balanced."""
        chosen = interleaved(self.classes)[:samples]
        return ArraySplit(self.pixels[chosen], self.classes[chosen])


@dataclass(frozen=True, eq=False)
class Dataset:
    """A dataset ready to train on; the same on every rank.

    shape is (C, H, W); mean and std are of the pixel values / 255, one for each channel; target is the top-1 quality to
    reach; fingerprint is the SHA-256 of the contents (hexadecimal); source is their origin. ceiling is the highest
    possible top-1 quality with its standard error, or None if it is unknown. crops: the part of an image that is
    delivered; None for the whole image.
    """

    name: str
    source: str
    shape: tuple[int, int, int]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    target: float
    fingerprint: str
    train: Split
    validation: Split
    ceiling: float | None = None
    ceiling_error: float | None = None
    crops: "Crops | None" = None

    @property
    def number_of_classes(self) -> int:
        """Number of classes of the network."""
        return self.classes

    @property
    def sample_bytes(self) -> int:
        """Bytes of an image as it is read."""
        return self.shape[0] * (self.crops.side if self.crops else self.shape[1]) ** 2


def description(dataset: Dataset) -> Description:
    """The dataset's description in a result, the same on every rank."""
    return Description(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        shape=dataset.shape,
        classes=dataset.classes,
        training_samples=len(dataset.train),
        validation_samples=len(dataset.validation),
        ceiling=dataset.ceiling,
        ceiling_error=dataset.ceiling_error,
    )


def interleaved(classes: Integers) -> Integers:
    """Indices (int64) in the order: first of every class, second of every class, …; each class keeps its own order."""
    by_class = np.argsort(classes, kind="stable")
    first = np.searchsorted(classes[by_class], classes[by_class])
    turn = np.arange(len(classes)) - first
    return by_class[np.argsort(turn, kind="stable")]


def fingerprint(train: ArraySplit, validation: ArraySplit) -> str:
    """SHA-256 (hexadecimal) over shape, type and bytes of the images and labels of both splits, in that order."""
    digest = hashlib.sha256()
    for array in (train.pixels, train.classes, validation.pixels, validation.classes):
        little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(f"{array.shape} {array.dtype.name}\n".encode())
        digest.update(little_endian.data)
    return digest.hexdigest()
