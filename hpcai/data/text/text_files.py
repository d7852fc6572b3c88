"""Bytes of a file, or of all files of a folder, divided by position: 90 % train, 5 % validate, 5 % test."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcai.data.content_names import content_name
from hpcai.data.philox import Integers
from hpcai.data.text.text_dataset import PLACES, Bytes, Text, WholeSequences
from hpcai.errors import DataError
from hpcai.formulas.official_rules import LANGUAGE

ENWIK8 = "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8"  # SHA-256 of mattmahoney.net/dc/enwik8.zip
TARGET = 2.0  # bits per byte of other text
PERCENT = (90, 95)  # ends of the training and of the validation bytes


@dataclass(frozen=True, eq=False)
class Blocks(WholeSequences):
    """Training sequences: consecutive blocks, each with the first byte of the next one."""

    data: Bytes
    places: int
    samples: int

    def sequences(self, indices: Integers) -> Bytes:
        """Sequences at the indices, uint8[n, places + 1]."""
        return self.data[indices[:, None] * self.places + np.arange(self.places + 1)]

    def bits(self, indices: Integers) -> None:
        """None: nobody knows."""

    @property
    def nbytes(self) -> int:
        """Bytes of the split."""
        return self.data.nbytes


@dataclass(frozen=True, eq=False)
class Windows:
    """Sequences that are evaluated: each begins half a sequence later, and its second half is counted; the first's all.

    So each byte is predicted once, with at least half a sequence before it, except for those of the first half.
    """

    data: Bytes
    places: int

    def __len__(self) -> int:
        return (len(self.data) - 1 - self.places) // self._stride + 1

    def sequences(self, indices: Integers) -> Bytes:
        """Sequences at the indices, uint8[n, places + 1]."""
        return self.data[indices[:, None] * self._stride + np.arange(self.places + 1)]

    def bits(self, indices: Integers) -> None:
        """None: nobody knows."""

    def uncounted(self, indices: Integers) -> Integers:
        """All but the last half, of which the sequence before has none."""
        return np.where(indices == 0, 0, self.places - self._stride)

    @property
    def predicted(self) -> int:
        """Bytes counted by all sequences together."""
        return self.places + (len(self) - 1) * self._stride

    @property
    def nbytes(self) -> int:
        """Bytes of the split."""
        return self.data.nbytes

    @property
    def _stride(self) -> int:
        return self.places // 2


def files_below(path: Path) -> list[Path]:
    """The file, or all regular files of a folder and of those in it, by their names; links are left out."""
    if path.is_file():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return sorted(found, key=lambda file: file.relative_to(path).as_posix().encode())


def open_text(path: Path, spec: str, samples: int = 0, places: int = 0, *, enwik8: bool = False) -> Text:
    """The bytes at a path, named `spec` in errors. DataError if they are too few, or enwik8 is not the published file.

    samples: 0 for all, else so many training sequences, from the start. The same on every rank.
    """
    data, places = np.concatenate([np.empty(0, np.uint8), *_read(path, spec)]), places or PLACES
    digest = hashlib.sha256(data.data).hexdigest()
    if enwik8 and digest != ENWIK8:
        raise DataError(f"dataset {spec}: SHA-256 {digest}; allowed: {ENWIK8}, of the published enwik8")
    ends = [len(data) * percent // 100 for percent in PERCENT]
    parts = np.split(data, ends)
    if min(len(parts[0]) - places, *(len(part) for part in parts)) <= places:
        least = 20 * (places + 1)
        raise DataError(f"dataset {spec}: {len(data)} bytes for sequences of {places}; allowed: at least {least}")
    train = Blocks(parts[0], places, _limited((len(parts[0]) - 1) // places, samples, spec))
    validation, test = (Windows(part, places) for part in parts[1:])
    fingerprint = hashlib.sha256(f"{digest} {places} {len(train)}\n".encode()).hexdigest()
    return Text(
        name=LANGUAGE.dataset if enwik8 else text_name(places, fingerprint),
        source=str(path),
        places=places,
        target=LANGUAGE.target if enwik8 else TARGET,
        fingerprint=fingerprint,
        train=train,
        validation=validation,
        test=test,
    )


def text_name(places: int, fingerprint: str) -> str:
    """The name of text in files."""
    return content_name("text", places, fingerprint)


def _read(path: Path, spec: str) -> Iterator[Bytes]:
    for file in files_below(path):
        try:
            yield np.fromfile(file, np.uint8)
        except OSError as error:
            raise DataError(f"dataset {spec}: {file}: {error.strerror}; allowed: files that may be read") from None


def _limited(there: int, samples: int, spec: str) -> int:
    if samples and not 2 <= samples <= there:
        raise DataError(f"{samples} training samples of {spec}; allowed: 0 (all) or 2 to {there}")
    return samples or there
