"""Joined layers: the custom convolutions and batch norms of a residual block as one function of torch, in training.

A block reads one value and leaves one. The vendor's layers, and those that torch must see one by one, stay apart.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from hpcai.kernels.operators import blocks
from hpcai.kernels.operators.block_plan import Layer
from hpcai.kernels.spec import DIRECTIONS
from hpcai.models.fused_layers import Custom, deferred, no_op
from hpcai.models.module import Executable, Layers


def join(network: Layers) -> None:
    """Join the deferred convolutions and batch norms of each residual block: one function computes them in training."""
    place = 0
    while place < len(network.steps):
        pairs = _block(network.steps, place)
        place = pairs[-1].end if pairs else place + 1
        if pairs:
            begin = pairs[0].begin
            network.steps[begin:place] = _joined(network, pairs, network.steps[begin:place])


def separate(network: Layers) -> None:
    """Undo `join`."""
    for place, (_, function, *_) in enumerate(network.steps):
        if isinstance(function, JoinedSteps):
            network.steps[place + 1 - len(function.steps) : place + 1] = function.steps


class Pair(NamedTuple):
    """Steps of a convolution and its batch norm, from `begin` to before `end`."""

    begin: int
    end: int
    source: int
    other: int | None
    target: int


class JoinedSteps:
    """The steps of a block, as one; where it does not apply, they are computed one by one."""

    def __init__(self, block: blocks.Block, source: int, steps: Sequence[Executable]) -> None:
        self.block, self.source, self.steps = block, source, list(steps)

    def __call__(self, x: Tensor) -> Tensor:
        return self.block(x) if self.block.applies(x) else self._one_by_one(x)

    def _one_by_one(self, x: Tensor) -> Tensor:
        values: dict[int, Any] = {self.source: x}
        for _, function, sources, target, frees in self.steps:
            assert function is not None, "a fused layer has one"
            values[target] = function(*[values[source] for source in sources])
            for dead in frees:
                values.pop(dead, None)
        made: Tensor = values[self.steps[-1][3]]
        return made


def _block(steps: Sequence[Executable], place: int) -> list[Pair]:
    """The shortest run of pairs from a position that reads one value and leaves one; none if there is none."""
    pairs: list[Pair] = []
    known: set[int] = set()
    live: set[int] = set()
    while place < len(steps) and (pair := _pair(steps, place)):
        known, live = known or {pair.source}, live or {pair.source}
        if not {pair.source, pair.other} <= {*known, None}:
            return []
        pairs.append(pair)
        known.add(pair.target)
        live = (live | {pair.target}).difference(*(step[4] for step in steps[pair.begin : pair.end]))
        if live == {pair.target}:
            return pairs
        place = pair.end
    return []


def _pair(steps: Sequence[Executable], place: int) -> Pair | None:
    """The deferred convolution at a position, with its batch norm."""
    _, function, sources, target, _ = steps[place]
    if getattr(function, "func", None) is not deferred:
        return None
    end = next(at for at in range(place + 1, len(steps)) if steps[at][1] is not no_op)
    _, _, (read, *others), made, _ = steps[end]
    assert read == target, "a convolution is deferred to the batch norm that follows it"
    return Pair(place, end + 1, sources[0], others[0] if others else None, made)


def _joined(network: Layers, pairs: Sequence[Pair], steps: Sequence[Executable]) -> list[Executable]:
    """Replace all steps of a block by no-ops except the last, which computes them all."""
    values = [pairs[0].source, *(pair.target for pair in pairs)]
    layers, custom = [], []
    for pair in pairs:
        convolution, batch_norm = network.steps[pair.begin][1], network.steps[pair.end - 1][1]
        assert isinstance(convolution, partial) and isinstance(batch_norm, partial)
        (part, predicate), (norm, relu) = convolution.args, batch_norm.args
        other = None if pair.other is None else values.index(pair.other)
        layers.append(Layer(part, norm, relu, values.index(pair.source), other))
        custom.append(partial(_all_custom, predicate))
    inner = {step[3] for step in steps[:-1]}
    frees = [dead for *_, dying in steps for dead in dying if dead not in inner]
    last = (steps[-1][0], JoinedSteps(blocks.Block(layers, custom), values[0], steps), [values[0]], values[-1], frees)
    return [*((name, no_op, [], target, []) for name, _, _, target, _ in steps[:-1]), last]


def _all_custom(custom: Custom, size: tuple[int, ...]) -> bool:
    return set(custom(size[1:])) == {*DIRECTIONS}
