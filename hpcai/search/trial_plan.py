"""The plan of a trial, as the leader broadcasts it to the ranks of its group."""

from msgspec import Struct

from hpcai.networks.morphism import Morphism
from hpcai.record.trial import Hyperparameters


class TrialPlan(Struct, frozen=True):
    """What a group trains: the network that `morphisms` make of the parent's, for at most `epochs` epochs.

    `ancestry` leads from the initial network to the parent's; `parent` is None where that is the initial network.
    `given`: seconds since the search began. `patience`: epochs without a smaller validation loss after which it ends.
    The same on all ranks of the group.
    """

    id: int
    worker: int
    round: int
    given: float
    parent: int | None
    ancestry: tuple[Morphism, ...]
    morphisms: tuple[Morphism, ...]
    hyperparameters: Hyperparameters
    epochs: int
    patience: int
