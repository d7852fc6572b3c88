"""What an MLPerf log says about the training of one model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpcai.train.milestones import Interval
from hpcai.train.recipe import Recipe
from hpcai.workloads.workload import Quality


@dataclass(frozen=True)
class Model:
    """A model of a test, or the networks that a search trains one after the other, and the group of ranks.

    optimiser, network: their names, of a search that of the first network. nodes: of the group; accelerators: GPUs that
    the group uses on the node where it uses most. seed: SEED of the test. training_samples: drawn in an epoch.
    """

    section: str
    network: str
    optimiser: str
    group: int
    ranks: int
    nodes: int
    accelerators: int
    seed: int
    recipe: Recipe
    training_samples: int
    validation_samples: int
    of: Quality
    target: float


@dataclass(frozen=True)
class Trained:
    """A training: its epochs and validations, and qualities by the epoch, from 1, after which they were measured.

    trial: of a search, the number of the trial. broken_off: ended by a shutdown of the run.
    """

    intervals: Sequence[Interval]
    qualities: Mapping[int, float]
    trial: int | None = None
    broken_off: bool = False


@dataclass(frozen=True)
class Times:
    """The times of a group, as readings of the clock of its first rank, of which the intervals are too.

    init: from the beginning of the test, its data and preflight checks included, to the end of the warm-up. run: the
    trainings with the validations between epochs.
    """

    init: tuple[float, float]
    run: tuple[float, float]
