"""Layer timer: seconds of each layer's forward and backward pass within a training step."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch import Tensor

from hpcai import clock

FORWARD, BACKWARD = "forward", "backward"
NO_WORK = "torch::autograd::AccumulateGrad"  # a graph node that accumulates a gradient into its parameter
Timestamp = Any  # a clock reading, or a CUDA event


class LayerTimer:
    """Records the begin and end of layers; `seconds` evaluates them once the device is done."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._spans: list[tuple[str, Hashable, Timestamp, Timestamp]] = []

    def timed(self, name: Callable[..., Hashable], function: Callable[..., Any], *inputs: Tensor) -> Any:
        """Call a function with its inputs; time it and its gradient under the key that `name` returns for them.

        Times each node of the backward pass between the result and the inputs.
        """
        key, known = name(*inputs), [each.grad_fn for each in inputs]
        begin = self._timestamp()
        made = function(*inputs)
        self._note(FORWARD, key, begin)
        for node in _backward_nodes(made, known):
            self._watch(key, node)
        return made

    def seconds(self) -> dict[tuple[str, Hashable], float]:
        """Sums by pass and key since the last call; the device must be done."""
        spans, self._spans = self._spans, []
        sums: dict[tuple[str, Hashable], float] = {}
        for direction, key, begin, end in spans:
            elapsed = end - begin if isinstance(begin, float) else begin.elapsed_time(end) * 1e-3
            sums[direction, key] = sums.get((direction, key), 0.0) + elapsed
        return sums

    def _watch(self, key: Hashable, node: Any) -> None:
        begun: list[Timestamp] = []
        node.register_prehook(lambda gradients: begun.append(self._timestamp()))
        node.register_hook(lambda *gradients: self._note(BACKWARD, key, begun.pop()))

    def _note(self, direction: str, key: Hashable, begin: Timestamp) -> None:
        self._spans.append((direction, key, begin, self._timestamp()))

    def _timestamp(self) -> Timestamp:
        if self._device.type != "cuda":
            return clock.now()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


def _backward_nodes(made: Tensor, known: list[Any]) -> Iterator[Any]:
    """The nodes of the backward pass between a tensor and the nodes that made its inputs, without the latter."""
    waiting, seen = [made.grad_fn], [*known, None]
    while waiting:
        node: Any = waiting.pop()
        if any(node is other for other in seen) or node.name() == NO_WORK:
            continue
        seen.append(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)
