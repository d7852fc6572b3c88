"""Packed images read anew from their shards by the HDF5 library, cropped by the kernels' reference."""

import json
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from hpcai.frozen.augmentation import crops
from hpcai.frozen.philox import Integers
from hpcai.frozen.samples import TRAINING, Sample, in_turn, normalised
from hpcai.kernels.crop import reference

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet
_SIDE, _EVALUATED = 256, 224
_NAMES = {"training": "train", "validation": "validation"}


class PackedImages:
    """Images in a folder of shards. samples, resolution: as of `FashionMnist`."""

    def __init__(self, folder: Path, samples: int, resolution: int) -> None:
        self._folder, self._samples, self._side = folder, samples, resolution or _EVALUATED
        index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self._shards = {split: [shard["file"] for shard in index[name]] for split, name in _NAMES.items()}
        sizes = {split: [shard["samples"] for shard in index[name]] for split, name in _NAMES.items()}
        self._ends = {split: [*accumulate(numbers)] for split, numbers in sizes.items()}

    def read(self, split: str, indices: Integers, augmented: Integers | None) -> Iterator[Sample]:
        """The samples: the crops of `augmented`, else the centre."""
        stored = self._chosen[indices] if split == TRAINING and self._samples else indices
        for number, place in enumerate(stored.tolist()):
            yield self._sample(split, place, self._centre if augmented is None else augmented[number])

    def labels(self, split: str, indices: Integers) -> Integers:
        """The labels of the samples, int64[n]."""
        return self._all_labels(split)[self._chosen[indices] if split == TRAINING and self._samples else indices]

    def _sample(self, split: str, place: int, box: Integers) -> Sample:
        import h5py

        shard = bisect_right(self._ends[split], place)
        within = place - (self._ends[split][shard - 1] if shard else 0)
        with h5py.File(self._folder / self._shards[split][shard], "r", locking=False) as file:
            image, label = file["images"][within], np.array(file["labels"][within], np.int64)
        cropped = np.empty((1, self._side, self._side, 3), np.uint8)
        reference.crop(image[None], box[None].astype(np.int32), cropped)
        return Sample(*normalised(cropped[0].transpose(2, 0, 1), _MEAN, _STD), label)

    def augmented(self, seed: int, model: int, draws: Integers) -> Integers:
        """The crops of a model's draws."""
        return crops(_SIDE, seed, model, draws)

    def block_begins(self) -> None:
        """None: any image is as near as any other."""

    @property
    def _centre(self) -> Integers:
        start = (_SIDE - _EVALUATED) // 2
        return np.array([start, start, _EVALUATED, _EVALUATED, 0])

    @cached_property
    def _chosen(self) -> Integers:
        return in_turn(self._all_labels(TRAINING))[: self._samples]

    def _all_labels(self, split: str) -> Integers:
        """The labels of all stored samples of a split, read from its shards."""
        import h5py

        labels = []
        for name in self._shards[split]:
            with h5py.File(self._folder / name, "r", locking=False) as file:
                labels.append(file["labels"][:].astype(np.int64))
        return np.concatenate(labels)
