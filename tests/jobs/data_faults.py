"""Faults in the data that the models are trained on, and in the counts of what was loaded."""

from typing import Any

import numpy as np
from mpi4py import MPI
from planting import Fault, replaced

from hpcai.data.generated_images import GeneratedSplit
from hpcai.data.load_counters import LoadCounters
from hpcai.training import stages


def labels_in_the_images() -> Fault:
    """Each image shows its label, without noise."""
    shown = np.random.default_rng(1).integers(0, 256, (10, 3, 8, 8), np.uint8)

    def make(genuine: Any) -> Any:
        return lambda self, indices: shown[self.labels(indices)]

    return replaced(GeneratedSplit, "images", make)


def loading_not_summed_over_ranks() -> Fault:
    """Each rank takes its own counts for those of all ranks."""
    return replaced(stages, "loading_of", lambda genuine: lambda kind, own, comm: genuine(kind, own, MPI.COMM_SELF))


def loading_counted_twice() -> Fault:
    """Each batch counts as two; its bytes and its time do not."""
    return replaced(
        LoadCounters, "add", lambda genuine: lambda self, samples, started: genuine(self, 2 * samples, started)
    )
