"""Operations counted while a module trains, from the tensors it really sees: the check on the credited count."""

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
            passes = 1
            if output.requires_grad:
                passes += weight.requires_grad + inputs[0].requires_grad
            self.operations += 2 * output.numel() * (weight.numel() // weight.shape[0]) * passes

    def remove(self) -> None:
        """Take the hooks off the module; the total stays."""
        for hook in self._hooks:
            hook.remove()


def count_executed(module: nn.Module) -> Executed:
    """Counts, from now on, each call of each convolution and dense layer of `module` in training mode.

    A call adds 2 multiply-add operations for each pass it stands for: the output, the gradient of the weights and that
    of the input, where these are differentiated. A few microseconds a call; nothing is synchronised. Per rank.
    """
    return Executed(module)
