"""Random neighbours of a network: networks that are one morphism away."""

from functools import cached_property
from random import Random

from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.morphism import (
    KERNEL_SIZES,
    KINDS,
    Deepen,
    Kernel,
    KernelSize,
    Morphism,
    Skip,
    Widen,
    growable_kernels,
    skip_ends,
    skip_starts,
    unknown_kind,
)
from hpcai.networks.spaces import nonnegative, spaces

FARTHEST = 3  # morphisms of a proposal
FACTORS = (1.25, 1.5, 1.75, 2.0)  # by which channels are widened


class Neighbourhood:
    """The legal morphisms of a graph; each kind is looked up once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def draw(self, random: Random) -> Morphism | None:
        """A morphism of a random kind among those that are possible; None where no morphism is legal."""
        for kind in random.sample([*KINDS], len(KINDS)):
            morphism = self.of_kind(kind, random)
            if morphism is not None:
                return morphism
        return None

    def of_kind(self, kind: str, random: Random) -> Morphism | None:
        """A random morphism of a kind, or None where none is legal. InputError for a kind that does not exist.

        Blocks are inserted with the smallest kernel; a later morphism can enlarge it.
        """
        match kind:
            case "deepen":
                return Deepen(random.choice(self._nonnegative), KERNEL_SIZES[0]) if self._nonnegative else None
            case "widen":
                return self._widen(random.choice(self._spaces), random.choice(FACTORS)) if self._spaces else None
            case "kernel":
                return Kernel(*random.choice(self._kernels)) if self._kernels else None
            case "skip":
                return self._skip(random)
        raise unknown_kind(kind)

    def _widen(self, layer: str, factor: float) -> Widen:
        channels = self.graph.shapes[layer][0]
        return Widen(layer, max(channels + 1, int(factor * channels)))

    def _skip(self, random: Random) -> Skip | None:
        for end in random.sample(self._skip_ends, len(self._skip_ends)):
            if starts := skip_starts(self.graph, end):
                return Skip(random.choice(starts), end)
        return None

    @cached_property
    def _nonnegative(self) -> list[str]:
        return [*nonnegative(self.graph)]

    @cached_property
    def _spaces(self) -> list[str]:
        return [*spaces(self.graph)]

    @cached_property
    def _skip_ends(self) -> list[str]:
        return [*skip_ends(self.graph)]

    @cached_property
    def _kernels(self) -> list[tuple[str, KernelSize]]:
        growable = {*growable_kernels(self.graph)}
        convolutions = ((layer.name, layer.op) for layer in self.graph.layers if isinstance(layer.op, Conv))
        growable_ones = ((name, op) for name, op in convolutions if name in growable)
        return [(name, size) for name, op in growable_ones for size in KERNEL_SIZES if size > op.kernel[0]]
