"""Builds the networks of trials: reads the parent's weights and lets the child inherit them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hpcai.data.philox import Purpose, seed_of
from hpcai.models.module import Network, build
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import morphed
from hpcai.networks.morphism import Deepen, Morphism
from hpcai.search.channel_statistics import statistics
from hpcai.search.trial_plan import TrialPlan
from hpcai.search.weight_inheritance import inherit
from hpcai.search.weights_file import State, cast, load_weights

FRESH = "fresh"
COMPARED_IMAGES = 4


@dataclass(frozen=True)
class Child:
    """A network with its initial weights, fp32 on the host, and its deviation from the parent's function.

    `deviation`: the largest difference of an output, as a share of the largest output, in fp64 and evaluation mode; 0
    where there is no parent, or its weights are not inherited. `parent_sha256`: of the file of weights that were
    inherited, as it was read; None where none was.
    """

    graph: Graph
    state: State
    deviation: float = 0.0
    parent_sha256: str | None = None


class ChildBuilder:
    """Builds the networks of one rank; they are the same on all ranks of a group."""

    def __init__(self, initial: Graph, folder: Path, seed: int, weights: str, images: Tensor) -> None:
        """`folder` has the weights of earlier trials; `weights`: inherited or fresh; `seed` is the case's.

        images: a few normalised training samples on the host, float[N, C, H, W].
        """
        self._initial, self._folder, self._seed, self._fresh = initial, folder, seed, weights == FRESH
        self._images = images

    def build(self, plan: TrialPlan, compare: bool) -> Child:
        """The network of a trial; `compare`: measure its deviation. WeightsRemoved if the parent's weights are gone."""
        parent = morphed(self._initial, plan.ancestry)
        if self._fresh:
            graph = morphed(parent, plan.morphisms)
            return Child(graph, _state(build(graph, seed_of(self._seed, Purpose.MORPHISMS, plan.id))))
        of_parent, digest = self._parent_state(parent, plan)
        state = cast(torch.float64, of_parent)
        graph, inherited = self._inherited(parent, state, plan.morphisms, plan.id)
        compared = compare and bool(plan.morphisms)
        deviation = _deviation(parent, state, graph, inherited, self._images) if compared else 0.0
        return Child(graph, cast(torch.float32, inherited), deviation, digest)

    def _parent_state(self, parent: Graph, plan: TrialPlan) -> tuple[State, str | None]:
        """The weights that a trial's parent ended with, and the digest of their file; of the initial network drawn."""
        if plan.parent is None:
            return _state(build(parent, seed_of(self._seed, Purpose.WEIGHTS, 0))), None
        return load_weights(self._folder, plan.parent)

    def _inherited(self, graph: Graph, state: State, morphisms: Sequence[Morphism], trial: int) -> tuple[Graph, State]:
        """The network after the morphisms, and the weights that it inherits."""
        images = self._images.double()
        for number, morphism in enumerate(morphisms):
            measured = statistics(graph, state, morphism.after, images) if isinstance(morphism, Deepen) else {}
            seed = seed_of(self._seed + number, Purpose.MORPHISMS, trial)
            state = inherit(graph, morphism, state, measured, seed)
            graph = morphism.apply(graph)
            state = {name: tensor for name, tensor in state.items() if name.split(".")[0] in graph.shapes}
        return graph, state


def _state(network: Network) -> State:
    return dict(network.state_dict())


def _deviation(parent: Graph, state: State, child: Graph, inherited: State, images: Tensor) -> float:
    x = images[:COMPARED_IMAGES].double()
    before, after = _output(parent, state, x), _output(child, inherited, x)
    worst = float((before - after).abs().max() / before.abs().max())
    return worst if worst == worst else float("inf")


def _output(graph: Graph, state: State, x: Tensor) -> Tensor:
    network = Network(graph).to_empty(device="cpu").double()
    network.load_state_dict(state)
    with torch.no_grad():
        logits: Tensor = network.eval()(x)
    return logits
