"""Generated images made anew, one by one, by the plain formula of the kernels' reference."""

from collections.abc import Iterator
from functools import cached_property
from math import log2

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.philox import Integers
from hpcai.frozen.samples import TRAINING, Sample, normalised
from hpcai.kernels.images import Formula, Part, reference

_TAG = 5  # of generated images among the streams of random numbers
_MEAN, _STD = (0.50,) * 3, (0.155,) * 3
_CLASSES, _SIDE = 10, 32  # where the input says 0


def formula(classes: int, side: int, seed: int) -> Formula:
    """The formula of a set with so many classes and pixels a side (docs/DATASETS.md)."""
    classes, side = classes or _CLASSES, side or _SIDE
    many = classes >= 100
    grid = 2 if side < 16 else 4 if side < 64 else 7
    symbols = 64 if many else 16
    corrupted = _corrupted(log2(classes * grid * grid) * 1.7 / grid**2, symbols, 16 if many and grid == 7 else 6)
    return Formula(
        seed=seed,
        tag=_TAG,
        side=side,
        classes=classes,
        symbols=symbols,
        synonyms=2,
        grid=grid,
        shifts=grid,
        corrupted=corrupted * 2**32 // 20,
        relabelled=int((0.1 if many else 0.2) * 2**32),
    )


def _corrupted(needed: float, symbols: int, most: int) -> int:
    """Most twentieths of the cells that may be replaced where a cell has to keep `needed` bits; 0 if none."""
    for twentieths in range(most, 0, -1):
        other = twentieths / 20 * (1 - 1 / symbols)
        if log2(symbols) + other * log2(other / (symbols - 1)) + (1 - other) * log2(1 - other) >= needed:
            return twentieths
    return 0


class GeneratedImages:
    """Images of a formula; training samples are of its first split, validation samples of its second."""

    def __init__(self, classes: int, side: int, seed: int) -> None:
        self._formula = formula(classes, side, seed)

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The samples, whole."""
        number = 0 if split == TRAINING else 1
        for index in indices.tolist():
            pixels = reference.image(self._formula, number, index, self._textures)
            yield Sample(*normalised(pixels, _MEAN, _STD), np.array(reference.label(self._formula, number, index)))

    def labels(self, split: str, indices: Integers) -> Integers:
        """The labels of the samples, int64[n]: index modulo classes, or a uniform draw instead."""
        made, tag = self._formula, self._formula.tag_of(Part.LABEL, 0 if split == TRAINING else 1)
        counters = np.stack([indices & 0xFFFFFFFF, indices >> 32, 0 * indices, 0 * indices + tag], 1)
        words = reference.philox(made.key, counters.astype(np.uint64))
        drawn = reference.below(made.classes, words[:, 1])
        return np.where(words[:, 0] < made.relabelled, drawn, indices % made.classes)

    def augmented(self, seed: int, model: int, draws: Integers) -> None:
        """None: images are used whole."""

    def block_begins(self) -> None:
        """None: nothing is read."""

    @cached_property
    def _textures(self) -> NDArray[np.uint8]:
        return reference.textures(self._formula)
