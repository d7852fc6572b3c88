"""Datasets of climate fields: two splits of frames with boxes, and their description."""

from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hpcai.data.philox import Integers
from hpcai.record.dataset import Dataset as Description

Fields = NDArray[np.floating[Any]]
Boxes = NDArray[np.int32]


class Frames(Protocol):
    """Frames and their boxes by index; reading the same index twice gives the same bytes."""

    def __len__(self) -> int:
        """Number of frames."""

    def frames(self, indices: Integers) -> Fields:
        """Fields at the indices (int64), as stored, float32 or float16 [n, 16, H, W]."""

    def boxes(self, indices: Integers) -> Boxes:
        """Rows [ymin, xmin, ymax, xmax, class], int32[n, 15, 5], half-open, in pixels; unused rows are last, and -1."""

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory."""

    @property
    def itemsize(self) -> int:
        """Bytes of a stored number."""


@dataclass(frozen=True, eq=False)
class Weather:
    """A set of climate fields ready to train on; the same on every rank.

    shape is (16, H, W); classes are numbers of hpcai.data.weather.layout.CLASSES in the order of the
    detector's classes; mean and std, float32[16], are of the fields as stored; target is the mAP at IoU 0.5 to reach;
    ceiling the highest possible mAP, None if unknown; fingerprint is the SHA-256 (hexadecimal) of the data, or of the
    formula and draws of generated data; source is their origin.
    """

    name: str
    source: str
    shape: tuple[int, int, int]
    classes: tuple[int, ...]
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    target: float
    fingerprint: str
    train: Frames
    validation: Frames
    ceiling: float | None = None

    @property
    def number_of_classes(self) -> int:
        """Number of classes of the network."""
        return len(self.classes)

    @property
    def sample_bytes(self) -> int:
        """Bytes of a frame as it is read."""
        return self.train.itemsize * prod(self.shape)


def description(dataset: Weather) -> Description:
    """The dataset's description in a result, the same on every rank."""
    return Description(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        shape=dataset.shape,
        classes=len(dataset.classes),
        training_samples=len(dataset.train),
        validation_samples=len(dataset.validation),
        ceiling=dataset.ceiling,
        ceiling_error=None if dataset.ceiling is None else 0.0,  # it follows from a formula
    )
