"""The proposal of a trial, and the interface of what suggests it to a leader."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hpcai.networks.morphism import Morphism
from hpcai.record.trial import Hyperparameters
from hpcai.search.messages import FinishedTrial


class Proposal(NamedTuple):
    """A trial that a leader would like to run; `network` is its digest."""

    parent: int | None
    ancestry: tuple[Morphism, ...]  # from the initial network to the parent's
    morphisms: tuple[Morphism, ...]
    network: str
    hyperparameters: Hyperparameters


class ProposalSource(Protocol):
    """Suggests trials; `rejected` counts networks that did not keep to the limits.

    `taken`: networks that it proposed for the last round in vain, which it does not propose again.
    """

    rejected: int
    taken: Sequence[str]

    def learn(self, trials: Sequence[FinishedTrial]) -> None:
        """Take in trials that returned, in an order that is the same in every run where runs are to be repeatable."""

    def suggest(self, round_: int, attempt: int) -> list[Proposal]:
        """Proposals for a round, the best first, or none; another `attempt` gives others."""
