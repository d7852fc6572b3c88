"""Networks one morphism away from another, drawn at random."""

from functools import cached_property
from random import Random

from hpcai.networks.graph import Graph
from hpcai.networks.layers import Conv
from hpcai.networks.morphism import KERNELS, KINDS, Deepen, Kernel, Morphism, Skip, Widen, ends, growing, starts
from hpcai.networks.spaces import nonnegative, spaces

FARTHEST = 3  # morphisms from the parent that a proposal is away
FACTORS = (1.25, 1.5, 1.75, 2.0)  # of channels


class Neighbourhood:
    """The legal morphisms of a graph, each kind looked up once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def drawn(self, dice: Random) -> Morphism | None:
        """One of a kind that is drawn first, of those that have any; None where nothing is legal."""
        for kind in dice.sample([*KINDS], len(KINDS)):
            morphism = self.of_kind(kind, dice)
            if morphism is not None:
                return morphism
        return None

    def of_kind(self, kind: str, dice: Random) -> Morphism | None:
        """One anywhere in the graph, or None. Blocks are inserted with the smallest kernel; it may grow."""
        match kind:
            case "deepen":
                return Deepen(dice.choice(self._nonnegative)) if self._nonnegative else None
            case "widen":
                return self._wider(dice.choice(self._spaces), dice.choice(FACTORS)) if self._spaces else None
            case "kernel":
                return Kernel(*dice.choice(self._kernels)) if self._kernels else None
        return self._skip(dice)

    def _wider(self, layer: str, factor: float) -> Widen:
        channels = self.graph.shapes[layer][0]
        return Widen(layer, max(channels + 1, int(factor * channels)))

    def _skip(self, dice: Random) -> Skip | None:
        for end in dice.sample(self._ends, len(self._ends)):
            if begin := starts(self.graph, end):
                return Skip(dice.choice(begin), end)
        return None

    @cached_property
    def _nonnegative(self) -> list[str]:
        return [*nonnegative(self.graph)]

    @cached_property
    def _spaces(self) -> list[str]:
        return [*spaces(self.graph)]

    @cached_property
    def _ends(self) -> list[str]:
        return [*ends(self.graph)]

    @cached_property
    def _kernels(self) -> list[tuple[str, int]]:
        growing_ones = {*growing(self.graph)}
        convolutions = ((layer.name, layer.op) for layer in self.graph.layers if isinstance(layer.op, Conv))
        return [
            (name, size) for name, op in convolutions if name in growing_ones for size in KERNELS if size > op.kernel[0]
        ]
