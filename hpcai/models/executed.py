"""Operations counted while a module trains, from the tensors it really sees: the check on the credited count."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from torch import Tensor, nn


class Count(Protocol):
    """Operations of all training calls so far, forward and backward, by rule `model`."""

    operations: int

    def remove(self) -> None:
        """Stop counting; the total stays."""


class Executed:
    """Counts each layer by itself."""

    def __init__(self, module: nn.Module) -> None:
        self.operations = 0
        self._hooks = [layer.register_forward_hook(self._add) for layer in _counted(module)]

    def _add(self, layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if layer.training:
            forward = _forward(layer, output)
            self.operations += forward
            if output.requires_grad:
                output.register_hook(partial(self._add_backward, _passes(layer, inputs) * forward))

    def _add_backward(self, operations: int, gradient: Tensor) -> None:
        self.operations += operations

    def remove(self) -> None:
        """Take the hooks off the module; the total stays."""
        for hook in self._hooks:
            hook.remove()


def count_executed(module: nn.Module) -> Executed:
    """Counts, from now on, each call of each convolution and dense layer of `module` in training mode.

    A call adds the operations of its output, two a multiply-add; when the gradient of that output arrives, as many for
    the gradient of the weights and for that of the input, where these are wanted. So a backward pass counts only if it
    runs. A few microseconds a call; nothing is synchronised. Per rank.
    """
    return Executed(module)


class ExecutedCalls:
    """Counts a network whose layers cannot be watched one by one, because they are compiled or played back as a whole.

    What a call is worth is learnt from one that is executed layer by layer, for each shape of the input. From then on a
    call adds its layers' forward passes, and the arrival of the gradient of a layer's weights its backward pass. A
    shape that was not learnt is worth nothing, and so is a backward pass that does not run. Per rank.
    """

    def __init__(self, module: nn.Module) -> None:
        self.operations = 0
        self._layers = _counted(module)
        self._known: dict[tuple[int, ...], tuple[int, list[int]]] = {}
        self._due = [0] * len(self._layers)  # backward passes of the last call that have not run yet
        self._hooks = [
            layer.weight.register_post_accumulate_grad_hook(partial(self._arrived, index))
            for index, layer in enumerate(self._layers)
        ]

    def learn(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Call the network, which executes the module's layers one by one, in training mode; returns its output."""
        forward, backward = [0] * len(self._layers), [0] * len(self._layers)

        def note(index: int, layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            forward[index] += _forward(layer, output)
            backward[index] += _passes(layer, inputs) * _forward(layer, output)

        hooks = [layer.register_forward_hook(partial(note, index)) for index, layer in enumerate(self._layers)]
        output = network(images)
        for hook in hooks:
            hook.remove()
        self._known[tuple(images.shape)] = sum(forward), backward
        return output

    def add(self, images: Tensor) -> None:
        """The network has been called in training mode."""
        forward, backward = self._known.get(tuple(images.shape), (0, [0] * len(self._layers)))
        self.operations += forward
        self._due = list(backward)

    def _arrived(self, index: int, weight: Tensor) -> None:
        self.operations += self._due[index]
        self._due[index] = 0

    def remove(self) -> None:
        """Take the hooks off the weights; the total stays."""
        for hook in self._hooks:
            hook.remove()


def _counted(module: nn.Module) -> list[Any]:
    return [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]


def _forward(layer: Any, output: Tensor) -> int:
    """A forward pass; the number of passes of its backward pass is `_passes`."""
    return 2 * output.numel() * (layer.weight.numel() // layer.weight.shape[0])


def _passes(layer: Any, inputs: tuple[Tensor, ...]) -> int:
    return int(layer.weight.requires_grad) + int(inputs[0].requires_grad)
