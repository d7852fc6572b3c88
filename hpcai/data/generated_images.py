"""Generated image classification of any size: no files, no communication, and a known highest quality.

A sample is a function of (seed, split, index) alone: any rank can make any sample, and the first samples of a set stay
the same when it grows. The images are those of kernels/images; docs/DATASETS.md derives them.
"""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from hpcai.data.image_dataset import Dataset, Pixels
from hpcai.data.philox import Integers, Purpose
from hpcai.kernels.images import CHANNELS, TRAINING, VALIDATION, Formula

if TYPE_CHECKING:
    import torch

    from hpcai.data.ceiling import Ceiling
    from hpcai.kernels.images.numba_cpu import Maker

CLASSES, RESOLUTION, SAMPLES = 10, 32, 60_000  # where the input says 0
MEAN, STD = 0.50, 0.155  # of all pixel values / 255, whatever the formula
SHARE = 0.93  # of the ceiling: the target
COVERED = 64  # samples of each split in the fingerprint

MANY = 100  # from so many classes on, the alphabet is the large one
SYNONYMS = 2
REPLACED_LABELS_FEW, REPLACED_LABELS_MANY = 0.2, 0.1
MOST_CORRUPTED, MOST_CORRUPTED_LARGE = 6, 16  # twentieths of the cells; many classes in many cells tolerate more
MARGIN = 1.7  # information in the cells over that needed for class and shift


def formula(classes: int, resolution: int, seed: int) -> Formula:
    """The formula of a dataset: its alphabet, grid and noise follow from classes and resolution (docs/DATASETS.md)."""
    many = classes >= MANY
    symbols = 64 if many else 16
    grid = 2 if resolution < 16 else 4 if resolution < 64 else 7
    most = MOST_CORRUPTED_LARGE if many and grid == 7 else MOST_CORRUPTED
    relabelled = REPLACED_LABELS_MANY if many else REPLACED_LABELS_FEW
    return Formula(
        seed=seed,
        tag=int(Purpose.GENERATED_IMAGES),
        side=resolution,
        classes=classes,
        symbols=symbols,
        synonyms=SYNONYMS,
        grid=grid,
        shifts=grid,
        corrupted=_corrupted(classes, symbols, grid, most) * 2**32 // 20,
        relabelled=int(relabelled * 2**32),
    )


def _corrupted(classes: int, symbols: int, grid: int, most: int) -> int:
    """Most twentieths of the cells that may be corrupted while the rest determines class and shift with a margin."""
    needed = MARGIN * log2(classes * grid**2)
    enough = (twentieths for twentieths in range(most, 0, -1) if grid**2 * _bits(symbols, twentieths / 20) >= needed)
    return next(enough, 0)


def _bits(symbols: int, corrupted: float) -> float:
    """Bits of information of a cell on its symbol: capacity of a channel that replaces it with that probability."""
    wrong = corrupted * (1 - 1 / symbols)
    lost = wrong * log2(wrong / (symbols - 1)) + (1 - wrong) * log2(1 - wrong)
    return log2(symbols) + lost


def validation_samples(samples: int) -> int:
    """A sixth of the training samples, but 1,000 to 50,000."""
    return min(50_000, max(1_000, samples // 6))


@dataclass(frozen=True, eq=False)
class GeneratedSplit:
    """One half of a generated dataset: its first `samples` samples."""

    formula: Formula
    number: int
    samples: int

    def __len__(self) -> int:
        return self.samples

    def images(self, indices: Integers) -> Pixels:
        """Images at the indices, uint8[n, 3, side, side]."""
        return self._made.images(indices)

    def labels(self, indices: Integers) -> Integers:
        """Labels at the indices, int64[n]."""
        return self._made.labels(indices)

    @property
    def nbytes(self) -> int:
        """0: nothing is kept."""
        return 0

    def maker(self, device: "torch.device") -> "Callable[[Integers], torch.Tensor] | None":
        """Function that generates the images at indices on that device; None if the host makes them."""
        from hpcai.machine.device import loads_kernels

        if not loads_kernels(device):
            return None
        from hpcai.kernels.images import cupy_gpu

        return cupy_gpu.maker(self.formula, self.number, device)

    @cached_property
    def _made(self) -> "Maker":
        from hpcai.kernels.images.numba_cpu import Maker

        return Maker(self.formula, self.number)


class GeneratedDataset(Dataset):
    """A generated dataset; fingerprint and ceiling, which take time, are computed on first use."""

    train: GeneratedSplit
    validation: GeneratedSplit

    def __init__(self, formula: Formula, samples: int) -> None:
        known = {
            "name": f"generated-{formula.classes}x{formula.side}",
            "source": f"the formula of generated images with seed {formula.seed}",
            "shape": (CHANNELS, formula.side, formula.side),
            "classes": formula.classes,
            "mean": (MEAN,) * CHANNELS,
            "std": (STD,) * CHANNELS,
            "train": GeneratedSplit(formula, TRAINING, samples),
            "validation": GeneratedSplit(formula, VALIDATION, validation_samples(samples)),
        }
        vars(self).update(known)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the formula, both sizes, and images and labels of 64 samples spread over each split."""
        digest = hashlib.sha256()
        for split in (self.train, self.validation):
            digest.update(f"{asdict(split.formula)} {split.number} {split.samples}\n".encode())
            indices = np.arange(COVERED) * split.samples // COVERED
            for part in np.split(indices, 16):  # large images take memory
                digest.update(split.images(part).data)
            digest.update(split.labels(indices).astype("<i8").data)
        return digest.hexdigest()

    @property
    def target(self) -> float:
        """Target: a share of the ceiling that correct training reaches."""
        return SHARE * self.ceiling

    @property
    def ceiling(self) -> float:
        """Highest expected top-1 quality."""
        return self._best.quality

    @property
    def ceiling_error(self) -> float:
        """Standard error of the ceiling."""
        return self._best.error

    @cached_property
    def _best(self) -> "Ceiling":
        from hpcai.data.ceiling import ceiling

        return ceiling(self.train.formula)


def open_generated(samples: int = 0, classes: int = 0, resolution: int = 0, seed: int = 0) -> GeneratedDataset:
    """The generated dataset of that many training samples; 0 stands for the defaults. The same on every rank."""
    return GeneratedDataset(formula(classes or CLASSES, resolution or RESOLUTION, seed), samples or SAMPLES)
