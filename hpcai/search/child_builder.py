"""Networks made ready to be trained: the parent's weights are read and inherited while the devices train others."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor

from hpcai.data.philox import Purpose, seed_of
from hpcai.errors import DataError
from hpcai.models.module import Network, build
from hpcai.networks.graph import Graph
from hpcai.networks.lineage import changed
from hpcai.networks.morphism import Deepen, Morphism, from_json
from hpcai.search.channel_statistics import statistics
from hpcai.search.trial_plan import Plan
from hpcai.search.weight_inheritance import State, inherited

FRESH = "fresh"
CHECKED_IMAGES = 4


@dataclass(frozen=True)
class Child:
    """A network with the weights that it begins with, fp32 on the host, and how far it is from its parent's function.

    `deviation`: the largest difference of an output, as a share of the largest output, in fp64 and evaluation mode; 0
    where there is no parent, or its weights are not wanted.
    """

    graph: Graph
    state: State
    deviation: float = 0.0


class Gone(Exception):
    """The parent's weights are no longer kept."""


class Nursery:
    """Makes the networks of one rank; the same ones on all ranks of a group."""

    def __init__(self, initial: Graph, folder: Path, seed: int, weights: str, images: Tensor) -> None:
        """`folder` has the weights of earlier trials; `weights`: inherited or fresh; `seed` is the case's.

        images: a few normalised training samples on the host, float[N, C, H, W].
        """
        self._initial, self._folder, self._seed, self._fresh = initial, folder, seed, weights == FRESH
        self._images = images

    def raised(self, plan: Plan, checks: bool) -> Child:
        """The network of a trial. Where it `checks`, child and parent are compared. Gone if there is no such parent."""
        parent = changed(self._initial, plan.ancestry)
        morphisms = [from_json(each) for each in plan.morphisms]
        if self._fresh:
            graph = changed(parent, plan.morphisms)
            return Child(graph, _state(build(graph, seed_of(self._seed, Purpose.MORPHISMS, plan.id))))
        state = _in(torch.float64, self._parent_state(plan))
        graph, heir = self._inherited(parent, state, morphisms, plan)
        deviation = _deviation(parent, state, graph, heir, self._images) if checks and morphisms else 0.0
        return Child(graph, _in(torch.float32, heir), deviation)

    def _parent_state(self, plan: Plan) -> State:
        """The weights that a trial's parent ended with; of the initial network those that are drawn."""
        if plan.parent is None:
            return _state(build(changed(self._initial, plan.ancestry), seed_of(self._seed, Purpose.WEIGHTS, 0)))
        try:
            state: State = torch.load(weights_file(self._folder, plan.parent), map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise Gone(f"trial {plan.parent}") from None
        except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
            raise DataError(f"cannot read {weights_file(self._folder, plan.parent).absolute()}: {error}") from None
        return state

    def _inherited(self, graph: Graph, state: State, morphisms: Sequence[Morphism], plan: Plan) -> tuple[Graph, State]:
        images = self._images.double()
        for number, morphism in enumerate(morphisms):
            found = statistics(graph, state, morphism.after, images) if isinstance(morphism, Deepen) else {}
            seed = seed_of(self._seed + number, Purpose.MORPHISMS, plan.id)
            state = inherited(graph, morphism, state, found, seed)
            graph = morphism.apply(graph)
            state = {name: tensor for name, tensor in state.items() if name.split(".")[0] in graph.shapes}
        return graph, state


def weights_file(folder: Path, trial: int) -> Path:
    """Where the weights lie that a trial ended with."""
    return folder / f"{trial}.pt"


def keep_weights(folder: Path, trial: int, state: State) -> None:
    """Write the weights that a trial ended with; others see all of the file or none. DataError where that fails."""
    path = weights_file(folder, trial)
    part = path.with_suffix(".part")
    try:
        torch.save(state, part)
        part.replace(path)
    except (OSError, RuntimeError) as error:  # torch has no class of its own for a disk that is full
        raise DataError(f"cannot write {path.absolute()}: {error}") from None


def ended_with(module: torch.nn.Module) -> State:
    """A copy of a module's weights and statistics, fp32 on the host."""
    copies = {name: value.detach().to("cpu", copy=True) for name, value in module.state_dict().items()}
    return _in(torch.float32, copies)


def _state(network: Network) -> State:
    return dict(network.state_dict())


def _in(kind: torch.dtype, state: State) -> State:
    return {
        name: (value.to(kind) if value.is_floating_point() else value).contiguous() for name, value in state.items()
    }


def _deviation(parent: Graph, state: State, child: Graph, heir: State, images: Tensor) -> float:
    x = images[:CHECKED_IMAGES].double()
    before, after = _output(parent, state, x), _output(child, heir, x)
    worst = float((before - after).abs().max() / before.abs().max())
    return worst if worst == worst else float("inf")


def _output(graph: Graph, state: State, x: Tensor) -> Tensor:
    network = Network(graph).to_empty(device="cpu").double()
    network.load_state_dict(state)
    with torch.no_grad():
        logits: Tensor = network.eval()(x)
    return logits
