"""A trial as the ranks of its group are told of it."""

from dataclasses import asdict, dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is to be trained: the morphisms behind those of its parent, for so many epochs.

    `ancestry` leads from the initial network to the parent's; `parent` is None where that is the initial network
    itself. `given`: seconds since the search began. The same on all ranks of the group.
    """

    id: int
    worker: int
    round: int
    given: float
    parent: int | None
    ancestry: list[Json]
    morphisms: list[Json]
    batch: int
    kernel: int
    epochs: int
    patience: int

    def as_dict(self) -> Json:
        """As JSON can hold it."""
        return asdict(self)
