"""Faults in the data that the models are trained on."""

from typing import Any

import numpy as np
from planting import Fault, replaced

from hpcai.data.generated_images import GeneratedSplit


def labels_in_the_images() -> Fault:
    """Each image shows its label, without noise."""
    shown = np.random.default_rng(1).integers(0, 256, (10, 3, 8, 8), np.uint8)

    def make(genuine: Any) -> Any:
        return lambda self, indices: shown[self.labels(indices)]

    return replaced(GeneratedSplit, "images", make)
