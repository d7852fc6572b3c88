"""Counter of operations during training, from the executed layers' tensors: the check of the credited operations."""

from collections import deque
from collections.abc import Callable, Container
from functools import partial
from typing import Any

from torch import Tensor, nn

from hpcai.models.sequence_layers import CausalAttention, SharedEmbedding


class Executed:
    """Counts the operations of training calls, forward and backward, by rule `model`. Per rank.

    The operations of a call are counted once for each shape of its first input, with hooks on the layers. From then on
    a call adds its layers' forward passes: two operations a multiply-add of a convolution's or dense layer's output.
    After its backward pass a layer whose weights have a gradient adds as many for that gradient, and for that of its
    input if needed; attention, which has no weights, adds as many for each of both operands of its products if the
    layer before it has a gradient, or the one behind it where a stage of a pipeline begins with it: the gradients of
    the stage before depend on it. Backward passes follow in the order of the calls. A shape not counted before adds
    nothing, nor does a backward pass that did not run. Takes some microseconds a step, whatever executes the layers,
    and never synchronises. `uncounted` layers are left out.
    """

    def __init__(self, module: nn.Module, uncounted: Container[str] = ()) -> None:
        self.operations = 0
        layers = (part for name, part in module.named_modules() if name not in uncounted)
        self._layers: list[Any] = [part for part in layers if isinstance(part, nn.Conv2d | nn.Linear | CausalAttention)]
        self._evidence = [_with_weights(self._layers, place) for place in range(len(self._layers))]
        self._known: dict[tuple[int, ...], tuple[int, list[int]]] = {}
        self._due: deque[list[int]] = deque()  # by layer: the backward passes of calls, in order, not yet counted

    def knows(self, images: Tensor) -> bool:
        """Whether the operations of a call with this shape are known."""
        return tuple(images.shape) in self._known

    def learn(self, network: Callable[..., Tensor], images: Tensor, *others: Any) -> Tensor:
        """Call the network layer by layer in training mode and count its operations; returns its output.

        `others` are further inputs; the operations do not depend on them.
        """
        forward, backward = [0] * len(self._layers), [0] * len(self._layers)

        def note(index: int, layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            operations = _operations(layer, inputs[0], output)
            operand = self._evidence[index].weight if isinstance(layer, CausalAttention) else layer.weight
            forward[index] += operations
            backward[index] += (operand.requires_grad + inputs[0].requires_grad) * operations

        hooks = [layer.register_forward_hook(partial(note, index)) for index, layer in enumerate(self._layers)]
        output = network(images, *others)
        for hook in hooks:
            hook.remove()
        self._known[tuple(images.shape)] = sum(forward), backward
        return output

    def add(self, images: Tensor) -> None:
        """The network was called in training mode."""
        forward, backward = self._known.get(tuple(images.shape), (0, []))
        self.operations += forward
        self._due.append(backward)

    def end_backward(self) -> None:
        """The backward pass of the first call that had none has returned; gradients are those of the step."""
        due = self._due.popleft() if self._due else []
        arrived = zip(due, self._evidence, strict=False)
        self.operations += sum(operations for operations, layer in arrived if layer.weight.grad is not None)


def _with_weights(layers: list[Any], place: int) -> Any:
    """The layer at a place, else the last one before it that has weights, else the first one behind it."""
    nearest = [*reversed(layers[: place + 1]), *layers[place + 1 :]]
    return next(layer for layer in nearest if not isinstance(layer, CausalAttention))


def _operations(layer: Any, x: Tensor, output: Tensor) -> int:
    """Operations of a layer's forward pass."""
    if isinstance(layer, CausalAttention):
        return layer.operations(x)
    if isinstance(layer, SharedEmbedding) and layer.looks_up(x):
        return 0
    return int(2 * output.numel() * (layer.weight.numel() // layer.weight.shape[0]))
