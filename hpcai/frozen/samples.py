"""A sample as it has to arrive at the network, and the plain arithmetic of its pixels."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.philox import Integers

Doubles = NDArray[np.float64]

TRAINING, VALIDATION = SPLITS = ("training", "validation")
TEST = "test"  # of data that have a third split, by which the ensemble is judged at the end
_UNIT = 2.0**-24  # rounding of fp32
_ROUNDINGS = 8  # of a normalised value, at most


class Sample(NamedTuple):
    """x: float64[C, H, W]; bound: of the difference that fp32 makes, by channel; y: label or boxes, exact."""

    x: Doubles
    bound: Doubles
    y: NDArray[np.generic]


class Source(Protocol):
    """Samples read anew from where the data come from."""

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The samples at the indices of a split, in their order; augmented: one row a sample, None as evaluated."""

    def augmented(self, seed: int, model: int, draws: Integers) -> Integers | None:
        """Augmentation of a model's draws, numbered through all epochs; None if samples are used as they are."""

    def block_begins(self) -> Integers | None:
        """The first training frame of each block, and their number, of data that are read in blocks; else None."""


@runtime_checkable
class Labelled(Protocol):
    """A source of samples with a class each."""

    def labels(self, split: str, indices: Integers) -> Integers:
        """The labels of the samples at the indices of a split, int64[n]."""


def normalised(pixels: NDArray[np.uint8], mean: Sequence[float], std: Sequence[float]) -> tuple[Doubles, Doubles]:
    """(pixels / 255 - mean) / std of uint8[C, H, W], and the bound by channel."""
    means, stds = np.array(mean, np.float64), np.array(std, np.float64)
    x = (pixels / 255.0 - means[:, None, None]) / stds[:, None, None]
    return x, _ROUNDINGS * _UNIT * (1 + abs(means)) / stds


def resized(x: Doubles, bound: Doubles, side: int) -> tuple[Doubles, Doubles]:
    """Bilinear interpolation to side x side pixels (centres of pixels aligned), and its bound; side 0: as it is.

    A coordinate is rounded by its size, which moves a value by that share of the range of values.
    """
    height, width = x.shape[1:]
    if side in (0, height) and height == width:
        return x, bound
    found = np.einsum("ij,cjk,lk->cil", _weights(height, side), x, _weights(width, side))
    return found, bound + _UNIT * (16 + 8 * max(height, width)) * np.abs(x).max((1, 2))


def _weights(size: int, out: int) -> Doubles:
    """Matrix (out, size): weights of the source pixels in the pixels of the result."""
    matrix = np.zeros((out, size))
    for row in range(out):
        place = max(0.0, (row + 0.5) * size / out - 0.5)
        first = min(int(place), size - 1)
        matrix[row, first] += 1 - (place - first)
        matrix[row, min(first + 1, size - 1)] += place - first
    return matrix


def of_fields(field: Doubles, mean: Doubles, std: Doubles) -> tuple[Doubles, Doubles]:
    """(field - mean) / std of float[16, H, W], and the bound by channel, of values in their own range."""
    x = (field - mean[:, None, None]) / std[:, None, None]
    largest = np.abs(field).max((1, 2)) + np.abs(mean)
    return x, _ROUNDINGS * _UNIT * largest / std


def in_turn(labels: Integers) -> Integers:
    """Indices in the order: first sample of every class, second of every class, and so on."""
    turns = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        turns[members] = np.arange(len(members))
    return np.lexsort((labels, turns))
