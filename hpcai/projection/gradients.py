"""When the gradients of a network are ready, and the buckets in which they are sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hpcai import opcount
from hpcai.networks.graph import Graph
from hpcai.projection.machine import Buckets

FP32 = 4  # bytes of a gradient in a bucket


@dataclass(frozen=True)
class Profile:
    """Gradients of a network in the order in which the backward pass makes them, the last layer's first.

    backward: share of the backward pass in the operations of a step, rule `model`. gradients: share of the backward
    pass after which they are ready, and their number, by layer.
    """

    backward: float
    gradients: tuple[tuple[float, int], ...]

    @property
    def elements(self) -> int:
        """Number of all gradients."""
        return sum(count for _, count in self.gradients)


@lru_cache(maxsize=64)
def profile(graph: Graph) -> Profile:
    """The profile of a network; a layer's time is taken to be that of its operations."""
    counted = opcount.count(graph, "model")
    done, ready = 0, []
    for layer in reversed(counted.layers):
        done += layer.backward
        if elements := graph.parameters.get(layer.name, 0):
            ready.append((done / counted.backward, elements))
    return Profile(counted.backward / counted.total, tuple(ready))


def buckets(of: Profile, rule: Buckets, backward: float) -> Iterator[tuple[float, int]]:
    """Seconds after which a bucket is ready, and its elements, in a backward pass of so many seconds.

    A cycle's gradients are sent at its end. The last bucket is ready at the end of the pass.
    """
    for tick, layers in _cycles([(share * backward, count) for share, count in of.gradients], rule.cycle):
        yield from _filled(layers, rule, tick)
        rule = Buckets(first=rule.largest, largest=rule.largest, cycle=rule.cycle)


def _cycles(ready: Sequence[tuple[float, int]], cycle: float) -> Iterator[tuple[float, list[tuple[float, int]]]]:
    """Gradients by the end of the cycle in which they are ready; without cycles all in one that never ends."""
    if not cycle:
        yield 0.0, list(ready)
        return
    ends = [-(-at // cycle) * cycle for at, _ in ready]
    for end in dict.fromkeys(ends):
        yield end, [layer for layer, own in zip(ready, ends, strict=True) if own == end]


def _filled(layers: Sequence[tuple[float, int]], rule: Buckets, not_before: float) -> Iterator[tuple[float, int]]:
    held, largest, at = 0, rule.first, 0.0
    for at, count in layers:
        held += count
        if held * FP32 >= largest:
            yield max(at, not_before), held
            held, largest = 0, rule.largest
    if held:
        yield max(at, not_before), held
