"""Sequences of bytes made anew, symbol by symbol, or read anew from their files.

Generated: a Markov chain whose rows are Polya urns, with recall (docs/DATASETS.md). Files: the first 90 % train in
blocks, the next 5 % validate and the last 5 % test in windows that begin half a sequence apart, of which all but the
first count in their second half.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from hpcai.frozen.philox import Integers, below, draws, stream
from hpcai.frozen.samples import TEST, TRAINING, VALIDATION, Sample

_STREAM, _PLACES = 13, 128  # of the random numbers; of a sequence where the input says 0
_SYMBOLS, _SWITCH, _BALLS, _CONCENTRATION = 64, 64, 4096, 4
_RECALL = 2**32 // 10
_APART = 2**20  # numbers of a sequence
_NOT_COUNTED = -100
_HALF = 0.5  # bytes are exact
_SPLITS = {TRAINING: 1, VALIDATION: 2}


def _sample(symbols: list[int] | Integers, uncounted: int = 0) -> Sample:
    """What arrives of a sequence: the bytes but the last, and what follows each."""
    whole = np.array(symbols, np.int64)
    y = whole[1:].copy()
    y[:uncounted] = _NOT_COUNTED
    return Sample(whole[None, None, :-1].astype(np.float64), np.full(1, _HALF), y)


class GeneratedTexts:
    """Sequences of a seed's source."""

    def __init__(self, places: int, seed: int) -> None:
        self._places, self._seed = places or _PLACES, seed

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The sequences, one by one."""
        for index in indices.tolist():
            yield _sample(self._sequence(_SPLITS[split], index))

    def augmented(self, seed: int, model: int, draws: Integers) -> None:
        """None: sequences are used as they are."""

    def block_begins(self) -> None:
        """None: nothing is read."""

    def _sequence(self, split: int, index: int) -> list[int]:
        numbers = index * _APART + np.arange(self._places + 1)
        first, *others = draws(self._seed, stream(_STREAM, split), numbers)
        found = [first % 2**32 * _SYMBOLS >> 32]
        last, followed, asked = found[0], dict[int, int](), -1
        for high, low in (divmod(word, 2**32) for word in others):
            if found[-1] == _SWITCH:
                asked = sorted(followed)[low * len(followed) >> 32]
                found.append(asked)
            elif asked >= 0:
                last, asked = followed[asked], -1
                found.append(last)
            elif followed and high < _RECALL:
                found.append(_SWITCH)
            else:
                followed[last] = self._urns[last][low * _BALLS >> 32]
                last = followed[last]
                found.append(last)
        return found

    @cached_property
    def _urns(self) -> list[bytes]:
        """The balls of each row."""
        return [_urn(self._seed, np.arange(row * _BALLS, (row + 1) * _BALLS)) for row in range(_SYMBOLS)]


def _urn(seed: int, numbers: Integers) -> bytes:
    """The balls of a row: each of a new colour, or of that of an earlier one."""
    balls = bytearray()
    colours = below(_SYMBOLS, seed, stream(_STREAM, 0, 1), numbers).tolist()
    for drawn, (word, colour) in enumerate(zip(draws(seed, stream(_STREAM, 0, 0), numbers), colours, strict=True)):
        chosen = (word >> 32) * (_CONCENTRATION + drawn) >> 32
        balls.append(colour if chosen < _CONCENTRATION else balls[chosen - _CONCENTRATION])
    return bytes(balls)


class TextFiles:
    """Sequences of the bytes of a file, or of all files of a folder."""

    def __init__(self, path: Path, places: int) -> None:
        self._path, self._places = path, places or _PLACES

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The sequences: blocks of the training split, windows of the others."""
        data, places = self._splits[split], self._places
        step = places if split == TRAINING else places // 2
        for index in indices.tolist():
            whole = np.frombuffer(data[index * step : index * step + places + 1], np.uint8)
            yield _sample(whole.astype(np.int64), places - step if index and split != TRAINING else 0)

    def augmented(self, seed: int, model: int, draws: Integers) -> None:
        """None: sequences are used as they are."""

    def block_begins(self) -> None:
        """None: any block is as near as any other."""

    @cached_property
    def _splits(self) -> dict[str, bytes]:
        names = [self._path] if self._path.is_file() else sorted(
            (name for name in self._path.rglob("*") if name.is_file() and not name.is_symlink()),
            key=lambda name: name.relative_to(self._path).as_posix().encode(),
        )
        data = b"".join(name.read_bytes() for name in names)
        first, second = len(data) * 90 // 100, len(data) * 95 // 100
        return {TRAINING: data[:first], VALIDATION: data[first:second], TEST: data[second:]}
