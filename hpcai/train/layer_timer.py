"""Seconds of parts of a network within a step of training: as it runs them, among all the others."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch import Tensor

from hpcai import clock

FORWARD, BACKWARD = "forward", "backward"
NO_WORK = "torch::autograd::AccumulateGrad"  # a node that hands a gradient to its parameter
Moment = Any  # a reading of the clock, or an event of a GPU's stream


class Laps:
    """Notes when parts begin and end; what lies between is worked out by `seconds`, once the device is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._spans: list[tuple[str, Hashable, Moment, Moment]] = []

    def timed(self, name: Callable[..., Hashable], function: Callable[..., Any], *inputs: Tensor) -> Any:
        """What the function makes of its inputs; its time, and that of its gradient, go to what `name` says of these.

        Nodes of the backward pass are timed one by one: those between what was made and the inputs.
        """
        key, known = name(*inputs), [each.grad_fn for each in inputs]
        begin = self._moment()
        made = function(*inputs)
        self._note(FORWARD, key, begin)
        for node in _between(made, known):
            self._watch(key, node)
        return made

    def seconds(self) -> dict[tuple[str, Hashable], float]:
        """Sums by pass and part since the last call; the device must have done them."""
        spans, self._spans = self._spans, []
        sums: dict[tuple[str, Hashable], float] = {}
        for way, key, begin, end in spans:
            elapsed = end - begin if isinstance(begin, float) else begin.elapsed_time(end) * 1e-3
            sums[way, key] = sums.get((way, key), 0.0) + elapsed
        return sums

    def _watch(self, key: Hashable, node: Any) -> None:
        begun: list[Moment] = []
        node.register_prehook(lambda gradients: begun.append(self._moment()))
        node.register_hook(lambda *gradients: self._note(BACKWARD, key, begun.pop()))

    def _note(self, way: str, key: Hashable, begin: Moment) -> None:
        self._spans.append((way, key, begin, self._moment()))

    def _moment(self) -> Moment:
        if self._device.type != "cuda":
            return clock.now()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


def _between(made: Tensor, known: list[Any]) -> Iterator[Any]:
    """The nodes of the backward pass that lead from a tensor to where its inputs came from, without these."""
    waiting, seen = [made.grad_fn], [*known, None]
    while waiting:
        node: Any = waiting.pop()
        if any(node is other for other in seen) or node.name() == NO_WORK:
            continue
        seen.append(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)
