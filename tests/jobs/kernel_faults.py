"""Faults in the custom kernels: in products, in batch norm, and in the statistics that it keeps."""

from collections.abc import Callable
from typing import Any

import torch
from planting import Fault, replaced

from hpcai.kernels.cpu import epilogue
from hpcai.kernels.operators import normalisation, on_cpu
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

# --- convolutions


def _convolution(faulty: str, spoil: Callable[[torch.Tensor], Any]) -> Fault:
    """The results of a direction are spoilt."""

    def make(genuine: Callable[..., None]) -> Any:
        def convolve(direction: str, one: Any, other: Any, result: torch.Tensor, shape: Any) -> None:
            genuine(direction, one, other, result, shape)
            if direction == faulty:
                spoil(result)

        return convolve

    return replaced(on_cpu, "convolve", make)


def last_channel_not_computed() -> Fault:
    return _convolution(FORWARD, lambda y: y[:, -1].zero_())


def border_of_input_gradient_lost() -> Fault:
    return _convolution(INPUT_GRADIENT, lambda dx: dx[:, :, -1].zero_())


def tap_of_weight_gradient_lost() -> Fault:
    return _convolution(WEIGHT_GRADIENT, lambda dw: dw[:, :, 0, 0].zero_())


def nothing_added_in_evaluation() -> Fault:
    """A convolution fused with a batch norm of known moments does not add the second operand."""
    return replaced(epilogue, "batch_norm", lambda genuine: lambda one, table, channels, _, relu: genuine(
        one, table, channels, None, relu
    ))


def nothing_cut_off_in_evaluation() -> Fault:
    """A fused convolution omits the ReLU."""
    return replaced(epilogue, "batch_norm", lambda genuine: lambda one, table, channels, other, _: genuine(
        one, table, channels, other, False
    ))


# --- batch norm


def batch_norm_backward_lacks_a_term() -> Fault:
    """The gradient of its input lacks the term of the mean."""

    def make(genuine: Callable[..., Any]) -> Any:
        def backward(g: torch.Tensor, x: torch.Tensor, y: Any, *rest: Any, **kept: Any) -> tuple[torch.Tensor, ...]:
            dx, dother, dweight, dbias = genuine(g, x, y, *rest, **kept)
            weight, _, _, variance, eps, _ = rest
            lost = weight * (variance + eps) ** -0.5 * dbias * (x.shape[1] / x.numel())
            return dx + lost.view(1, -1, 1, 1), dother, dweight, dbias

        return backward

    return replaced(normalisation, "backward", make)


def statistics_not_kept() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        return lambda *given, **kept: genuine(*given[:-1], None, **kept)

    return replaced(normalisation, "forward", make)


def variance_not_that_of_a_sample() -> Fault:
    def make(genuine: Callable[..., Any]) -> Any:
        def forward(*given: Any, **kept: Any) -> Any:
            *layer, (running_mean, running_var, momentum) = given
            y, mean, variance = genuine(*layer, None, **kept)
            running_mean.lerp_(mean, momentum)
            running_var.lerp_(variance, momentum)
            return y, mean, variance

        return forward

    return replaced(normalisation, "forward", make)
