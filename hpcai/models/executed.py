"""Operations counted while a module trains, from the tensors it really sees: the check on the credited count."""

from functools import partial
from typing import Any

from torch import Tensor, nn


class Executed:
    """Operations of all training calls so far, forward and backward, by rule `model`."""

    def __init__(self, module: nn.Module) -> None:
        self.operations = 0
        counted = [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
        self._hooks = [part.register_forward_hook(self._add) for part in counted]

    def _add(self, part: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if part.training:
            weight = part.weight
            forward = 2 * output.numel() * (weight.numel() // weight.shape[0])
            self.operations += forward
            if output.requires_grad:
                passes = weight.requires_grad + inputs[0].requires_grad
                output.register_hook(partial(self._add_backward, passes * forward))

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
