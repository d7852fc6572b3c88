"""Generated climate fields made once more by a fresh generator, normalised and transformed by plain code.

The place of a sample in the years, and the frames that give mean and deviation, are written again here as in
hpcai.frozen, and for the same purpose: a run compares what it was given with them.
"""

from collections.abc import Iterator
from functools import cache, cached_property, lru_cache

import numpy as np

from hpcai.data.weather.generated import Formula, Maker, formula
from hpcai.errors import DataError
from hpcai.frozen.augmentation import transforms
from hpcai.frozen.fields import sample
from hpcai.frozen.philox import Integers
from hpcai.frozen.samples import TRAINING, Doubles, Sample

_CHANNELS, _FRAMES, _STRIDE, _HEIGHT = 16, 1460, 903, 768
_FIRST = {"training": 1979, "validation": 1980}
_STATISTICS, _COARSE = 12, 192
_KNOWN_MEANS = np.array(
    (
        *(7.11861e-08, 99103.8, 100613.0, 0.00627877, 220.453, 251.6, 20.9811, 274.748, 275.725),
        *(1.04178, 0.884005, 0.0289578, -0.129828, 51.1467, 11735.1, 60.4445),
    )
)
_KNOWN_BOXES = [[18, 11, 44, 37, 3], [10, 2, 31, 15, 1], [11, 42, 29, 53, 0], [32, 1, 46, 32, 2], [0, 0, 18, 28, 2]]


class RegeneratedFields:
    """Frames of a formula; 0 stands for the defaults."""

    def __init__(self, classes: int, resolution: int, seed: int) -> None:
        check_generator()
        height = resolution or _HEIGHT
        self._formula = formula(classes, height, height * 3 // 2, seed)

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The frames, transformed by the rows of `augmented`."""
        mean, std = _normalisation(self._formula)
        for number, index in enumerate(indices.tolist()):
            field, boxes = self._made(split, index)
            turn = None if augmented is None else augmented[number]
            yield sample(field, boxes, mean, std, self._formula.classes, turn)

    def _made(self, split: str, index: int) -> tuple[Doubles, list[list[int]]]:
        field = np.empty((_CHANNELS, self._formula.height, self._formula.width), np.float32)
        rows = self._maker.make(*_moment(split, index), field)
        return field.astype(np.float64), [row for row in rows.tolist() if row[4] >= 0]

    def augmented(self, seed: int, model: int, draws: Integers) -> Integers:
        """The transforms of a model's draws."""
        return transforms(self._formula.width, seed, model, draws)

    def block_begins(self) -> None:
        """None: each frame is made by itself."""

    @cached_property
    def _maker(self) -> Maker:
        return Maker(self._formula)


@cache
def check_generator() -> None:
    """DataError unless the generator makes the frame that it made when its formula was fixed."""
    field = np.empty((_CHANNELS, 48, 72), np.float32)
    boxes = Maker(formula(4, 48, 72, 7)).make(1979, 903, field)
    found = field.astype(np.float64).mean((1, 2))
    away = np.abs(found - _KNOWN_MEANS) > 1e-4 * np.abs(_KNOWN_MEANS) + 1e-4 * field.std((1, 2))
    if away.any() or boxes[boxes[:, 4] >= 0].tolist() != _KNOWN_BOXES:
        raise DataError(
            f"generated weather of seed 7 has means {found.tolist()} and boxes {boxes.tolist()}; "
            f"allowed: {_KNOWN_MEANS.tolist()} and {_KNOWN_BOXES}, its known answer"
        )


def _moment(split: str, index: int) -> tuple[int, int]:
    """Year and step in it of a sample: every other year, each in strides."""
    return _FIRST[split] + index // _FRAMES * 2, index * _STRIDE % _FRAMES


@lru_cache(2)
def _normalisation(whole: Formula) -> tuple[Doubles, Doubles]:
    """Mean and deviation of each channel, of twelve training frames on a grid of at most 192 rows or twice as many."""
    coarser = max(1, whole.height // _COARSE)
    height, width = whole.height // coarser // 2 * 2, whole.width // coarser // 2 * 2
    maker = Maker(Formula(whole.seed, whole.classes, height, width, whole.enlarged))
    fields = np.empty((_STATISTICS, _CHANNELS, height, width), np.float32)
    for index, field in enumerate(fields):
        maker.make(*_moment(TRAINING, index), field)
    doubles = fields.astype(np.float64)
    return doubles.mean((0, 2, 3)), doubles.std((0, 2, 3))
