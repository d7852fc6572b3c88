"""Datasets of sequences of bytes: splits, and their description."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hpcai.data.philox import Integers
from hpcai.record.dataset import Dataset as Description

Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]

VALUES = 256  # of a byte
PLACES = 128  # of a sequence where the input says 0
UNCOUNTED = -100  # in place of a byte that is predicted by another sequence; torch's cross entropy leaves it out


class Sequences(Protocol):
    """Sequences by index; reading the same index twice gives the same bytes."""

    def __len__(self) -> int:
        """Number of sequences."""

    def sequences(self, indices: Integers) -> Bytes:
        """Sequences at the indices (int64), uint8[n, places + 1]: all but the last byte predict all but the first."""

    def bits(self, indices: Integers) -> Doubles | None:
        """-log2 of the probability of each sequence's predicted bytes by their source; None where it is not known."""

    def uncounted(self, indices: Integers) -> Integers:
        """How many of the first predicted bytes of each sequence are counted in another one, int64[n]."""

    @property
    def predicted(self) -> int:
        """Bytes that the split's sequences predict, each counted once."""

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory."""


class WholeSequences:
    """A split of `samples` sequences of `places` predicted bytes, each of which is in one sequence only."""

    samples: int
    places: int

    def __len__(self) -> int:
        return self.samples

    def uncounted(self, indices: Integers) -> Integers:
        """0 of each."""
        return np.zeros(len(indices), np.int64)

    @property
    def predicted(self) -> int:
        """All bytes but the first of each sequence."""
        return self.samples * self.places


@dataclass(frozen=True, eq=False)
class Text:
    """Sequences of `places` bytes ready to train on; the same on every rank.

    target: bits per byte to reach. test: what the ensemble is judged by at the end; None where that is the validation
    set. ceiling: bits per byte of the source on the validation set, with its standard error; None where it is not
    known. fingerprint: SHA-256 (hexadecimal) of the bytes, or of formula and first sequences; source: their origin.
    """

    name: str
    source: str
    places: int
    target: float
    fingerprint: str
    train: Sequences
    validation: Sequences
    test: Sequences | None = None
    ceiling: float | None = None
    ceiling_error: float | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a sample."""
        return (1, 1, self.places)

    @property
    def number_of_classes(self) -> int:
        """Number of symbols of the network."""
        return VALUES

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sequence as it is read."""
        return self.places + 1


def description(dataset: Text) -> Description:
    """The dataset's description in a result, the same on every rank."""
    return Description(
        name=dataset.name,
        fingerprint=dataset.fingerprint,
        shape=dataset.shape,
        classes=VALUES,
        training_samples=len(dataset.train),
        validation_samples=len(dataset.validation),
        ceiling=dataset.ceiling,
        ceiling_error=dataset.ceiling_error,
    )
