"""Climate fields read anew: packed frames and published files, by the HDF5 library; boxes cleaned row by row.

Source of the layout: Racah et al., "ExtremeWeather", NIPS 2017 (arXiv:1612.02095).
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcai.frozen.augmentation import Boxes, on_map, transformed, transformed_boxes, transforms
from hpcai.frozen.philox import Integers
from hpcai.frozen.samples import SPLITS, TRAINING, Doubles, Sample, of_fields

_ROWS, _CLASSES = 15, 4
_STATISTICS = "weather-statistics.json"
_UNSHIFTED = (11, 12)  # channels of meridional winds, whose mean over mirrored fields is 0
_NAMES = {"training": "train", "validation": "validation"}


class Run(NamedTuple):
    """The frames begin ... end - 1 of a file."""

    path: Path
    begin: int
    end: int


def sample(
    field: NDArray[Any], boxes: Boxes, mean: Doubles, std: Doubles, classes: Sequence[int], turn: Integers | None
) -> Sample:
    """A frame [16, H, W] with its boxes, as it has to arrive; turn: columns to the east and mirrored, None: as it is.

    classes: the numbers of the files in the order of the detector's; boxes of others are left out.
    """
    height, width = field.shape[1:]
    doubles = field.astype(np.float64)
    if turn is not None:
        columns, mirrored = map(int, turn)
        doubles = transformed(doubles, columns, mirrored)
        boxes = transformed_boxes(boxes, columns, mirrored, height, width)
    x, bound = of_fields(doubles, mean, std)
    kept = [[*row[:4], classes.index(row[4])] for row in boxes if row[4] in classes]
    y = np.full((_ROWS, 5), -1, np.float32)
    y[: len(kept)] = np.array(kept, np.float32).reshape(-1, 5)
    return Sample(x, bound, y)


def cleaned(rows: NDArray[np.integer], height: int, width: int) -> Boxes:
    """The boxes of a frame of a published file that are sound, on the map, in their order; at most 15."""
    found = []
    for top, left, bottom, right, number in rows.tolist():
        crosses = right < left
        right += width * crosses
        sound = 0 <= number < _CLASSES and top < bottom and left < right <= left + width
        low, high = max(top, 0), min(bottom, height)
        if sound and low < high and not (crosses and 2 * (right - left) > width):
            found.append(on_map([low, left, high, right, number], width))
    return found[:_ROWS]


class PackedFields:
    """Frames of a folder of shards: normalised when they were packed."""

    def __init__(self, folder: Path, samples: int) -> None:
        index = json.loads((folder / "weather.json").read_text(encoding="utf-8"))
        self.width = int(index["shape"][2])
        self._runs = {
            split: [Run(folder / shard["file"], 0, shard["samples"]) for shard in index[name]]
            for split, name in _NAMES.items()
        }
        self._samples = samples

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The frames, transformed by the rows of `augmented`."""
        import h5py

        for number, (path, place) in enumerate(places(self._runs[split], self._samples, split, indices)):
            with h5py.File(path, "r", locking=False) as file:
                field, rows = file["images"][place].transpose(2, 0, 1), file["boxes"][place].tolist()
            boxes = [row for row in rows if row[4] >= 0]
            turn = None if augmented is None else augmented[number]
            yield sample(field, boxes, np.zeros(16), np.ones(16), range(_CLASSES), turn)

    def augmented(self, seed: int, model: int, draws: Integers) -> Integers:
        """The transforms of a model's draws."""
        return transforms(self.width, seed, model, draws)

    def block_begins(self) -> None:
        """None: each frame is read by itself."""


class PublishedFields:
    """Frames of the published files: the last year validates, or the last tenth of a single file."""

    def __init__(self, path: Path, samples: int, given: tuple[Doubles, Doubles]) -> None:
        """given: mean and deviation, used where a folder that cannot be written has no sums."""
        import h5py

        files = [path] if path.is_file() else sorted(path.glob("climo_[0-9][0-9][0-9][0-9].h5"))
        self._chunks: dict[Path, int] = {}
        frames = {}
        for name in files:
            with h5py.File(name, "r", locking=False) as file:
                images = file["images"]
                frames[name], self.width = images.shape[0], images.shape[3]
                self._chunks[name] = min(images.chunks[0], frames[name]) if images.chunks else 1
        last = files[-1]
        begin = 0 if len(files) > 1 else frames[last] - max(1, frames[last] // 10)
        training = [Run(name, 0, frames[name]) for name in files[:-1]] or [Run(last, 0, begin)]
        self._runs = {"training": training, "validation": [Run(last, begin, frames[last])]}
        self._samples = samples
        self.mean, self.std = self._normalisation(last.parent) or given

    def _normalisation(self, folder: Path) -> tuple[Doubles, Doubles] | None:
        """Mean and deviation of the training frames, from the sums that are stored beside the files; None without."""
        try:
            parts = json.loads((folder / _STATISTICS).read_text(encoding="utf-8"))["parts"]
            stored = {(part["file"], part["begin"], part["stop"]): part for part in parts}
            found = [stored[run.path.name, run.begin, run.end] for run in self._runs[TRAINING]]
        except (OSError, KeyError):
            return None
        counts = np.array([part["count"] for part in found], np.float64)[:, None]
        means, squares = (np.array([part[name] for part in found]) for name in ("mean", "squares"))
        mean = (counts * means).sum(0) / counts.sum()
        variance = (squares.sum(0) + (counts * (means - mean) ** 2).sum(0)) / counts.sum()
        mean[list(_UNSHIFTED)] = 0
        return mean, np.where(variance > 0, np.sqrt(variance), 1.0)

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The frames, transformed by the rows of `augmented`."""
        import h5py

        for number, (path, place) in enumerate(places(self._runs[split], self._samples, split, indices)):
            with h5py.File(path, "r", locking=False) as file:
                field, rows = file["images"][place], file["boxes"][place]
            boxes = cleaned(rows[(rows != -1).any(1)], *field.shape[1:])
            turn = None if augmented is None else augmented[number]
            yield sample(field, boxes, self.mean, self.std, range(_CLASSES), turn)

    def augmented(self, seed: int, model: int, draws: Integers) -> Integers:
        """The transforms of a model's draws."""
        return transforms(self.width, seed, model, draws)

    def block_begins(self) -> Integers:
        """Blocks are the files' chunks, cut where a part begins."""
        begins, frames = list[int](), 0
        for path, begin, end in self._runs[TRAINING]:
            begins += [frames + frame - begin for frame in range(begin, end) if self._starts(path, frame, begin)]
            frames += end - begin
        whole, chosen = np.array([*begins, frames]), _chosen(frames, self._samples)
        return whole if chosen is None else np.searchsorted(chosen, whole)

    def _starts(self, path: Path, frame: int, begin: int) -> bool:
        """Whether a frame is the first of a block."""
        return frame == begin or frame % self._chunks[path] == 0


def places(runs: Sequence[Run], samples: int, split: str, indices: Integers) -> Iterator[tuple[Path, int]]:
    """File and frame in it of each index of a split."""
    assert split in SPLITS
    chosen = _chosen(sum(run.end - run.begin for run in runs), samples) if split == TRAINING else None
    for index in (indices if chosen is None else chosen[indices]).tolist():
        for path, begin, end in runs:
            if index < end - begin:
                yield path, begin + index
                break
            index -= end - begin


def _chosen(n: int, samples: int) -> Integers | None:
    """The training frames in use, evenly spread; None for all."""
    return np.array([place * n // samples for place in range(samples)]) if samples else None
