"""The classes that a model's last validation found for this rank's samples, kept on the device."""

import numpy as np
import torch
from torch import Tensor

from hpcai.data.philox import Integers


class Predictions:
    """Predicted classes by batch, with the samples that the loader delivered; 8 bytes a sample on the device."""

    def __init__(self) -> None:
        self._batches: list[tuple[Tensor, Integers]] = []

    def begin(self) -> None:
        """A validation begins: forget those of the one before."""
        self._batches = []

    def note(self, classes: Tensor, indices: Integers) -> None:
        """Keep the classes of a batch, int64[n], and its samples, int64[n]; no copy, no synchronisation."""
        self._batches.append((classes, indices))

    def of(self, indices: Integers) -> Tensor | None:
        """The classes of the batch of exactly these samples; None if there was none."""
        return next((classes for classes, own in self._batches if np.array_equal(own, indices)), None)

    def on_host(self) -> tuple[Integers, Integers]:
        """All samples and their classes, int64[n] each."""
        indices = [np.empty(0, np.int64), *(own for _, own in self._batches)]
        classes = [torch.empty(0, dtype=torch.int64), *(classes.cpu() for classes, _ in self._batches)]
        return np.concatenate(indices), torch.cat(classes).numpy()
