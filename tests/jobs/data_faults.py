"""Faults in what the models are shown."""

from typing import Any

import numpy as np
from planting import Fault, replaced

from hpcai.data.generated_images import GeneratedSplit


def labels_in_the_pictures() -> Fault:
    """Each picture shows its label, noise and all."""
    shown = np.random.default_rng(1).integers(0, 256, (10, 3, 8, 8), np.uint8)

    def make(genuine: Any) -> Any:
        return lambda self, indices: shown[self.labels(indices)]

    return replaced(GeneratedSplit, "images", make)
