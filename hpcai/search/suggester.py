"""What a leader tries next: a network by the strategy of the search, and hyper-parameters."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcai.data.philox import Purpose, seed_of
from hpcai.formulas.trial_schedule import number, warms_up
from hpcai.networks.digest import digest
from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.morphism import KERNELS, Insertion, Kernel, from_json
from hpcai.search import tpe
from hpcai.search.candidates import Candidate, Limits, proposed
from hpcai.search.child_builder import weights_file
from hpcai.search.memory_limit import Room
from hpcai.search.trial_cache import MOST_PARENTS
from hpcai.search.trial_history import Book
from hpcai.search.trial_request import Proposal

Json = dict[str, Any]
MOST_KNOWN, MOST_TRIED = 1000, 1000
INSERTED = tuple(kind.operation for kind in Insertion.__subclasses__())
BAYES = "bayes"


class Choice:
    """Chooses for one worker; a function of the entries it learnt, in order, and of the seed."""

    def __init__(
        self, settings: Mapping[str, Any], seed: int, worker: int, initial: Graph, room: Room, folder: Path
    ) -> None:
        self.rejected = 0
        self._settings, self._seed, self._worker, self._room, self._folder = settings, seed, worker, room, folder
        self._book = Book(initial, seed)
        self._limits = Limits(
            settings["DEPTH"], settings["PARAMETERS"], lambda graph: room.fits(graph, self._batches[0])
        )
        batch = settings["BATCH"]
        self._batches = sorted({max(2, batch // 2), batch, 2 * batch})
        self._tried: list[tpe.Tried] = []
        self._proposed: list[Proposal] = []

    def learn(self, entries: Sequence[Json]) -> None:
        """Trials that came back; those that can be parents have their weights in the folder."""
        for entry in entries:
            chain = [from_json(each) for each in entry["chain"]]
            self._book.add(entry["id"], chain, entry["value"] if entry["parent"] else None)
            self._tried.append(tpe.Tried(entry["hyperparameters"], entry["accuracy"]))
        del self._tried[:-MOST_TRIED]
        if len(self._book.known) > MOST_KNOWN:
            self._book.forget()

    def proposals(self, round_: int, attempt: int) -> list[Proposal]:
        """The best ones first; what was proposed in vain before is known to others."""
        if attempt:
            self._book.tried.update(proposal.network for proposal in self._proposed)
        seed = seed_of(self._seed + attempt, Purpose.PROPOSALS, number(round_, self._worker, self._settings["GROUPS"]))
        found = proposed(self._settings["STRATEGY"], self._book, self._parents(), self._limits, seed, self._worker == 0)
        self.rejected += found.rejected
        given = self._given(round_, seed)
        proposals = [self._proposal(candidate, given) for candidate in found.candidates]
        self._proposed = [proposal for proposal in proposals if proposal.network not in self._book.tried]
        return self._proposed

    def _parents(self) -> list[int]:
        best = sorted(self._book.known.values(), key=lambda known: (-known.value, known.id))[:MOST_PARENTS]
        return [known.id for known in best if weights_file(self._folder, known.id).exists()]

    def _given(self, round_: int, seed: int) -> dict[str, int]:
        """Batch and side of the kernels: the input's in the rounds that warm up."""
        if warms_up(round_):
            return {"batch": self._settings["BATCH"], "kernel": KERNELS[0]}
        history = self._tried if self._settings["STRATEGY"] == BAYES else []
        return tpe.proposed({"batch": self._batches, "kernel": KERNELS}, history, seed)

    def _proposal(self, candidate: Candidate, given: Mapping[str, int]) -> Proposal:
        """A candidate, whose convolutions that were added grow to the side that was chosen."""
        grown = [] if candidate.parent is None else _growth(candidate.graph, given["kernel"])
        graph = candidate.graph
        for morphism in grown:
            graph = morphism.apply(graph)
        if not self._limits.allow(graph):
            graph, grown = candidate.graph, []
        sizes = (given["batch"], *reversed(self._batches))
        batch = next((size for size in sizes if self._room.fits(graph, size)), self._batches[0])
        return Proposal(
            parent=candidate.parent,
            ancestry=[morphism.to_json() for morphism in candidate.ancestry],
            morphisms=[morphism.to_json() for morphism in (*candidate.morphisms, *grown)],
            network=digest(graph),
            batch=batch,
            kernel=given["kernel"],
        )


def _growth(graph: Graph, side: int) -> list[Kernel]:
    """Morphisms for all convolutions that morphisms have added and that are smaller; those of one pixel stay."""
    return [
        Kernel(layer.name, side)
        for layer in graph.layers
        if isinstance(layer.op, Conv)
        and layer.name.startswith(INSERTED)
        and layer.op.kernel[0] in KERNELS
        and layer.op.kernel[0] < side
    ]
