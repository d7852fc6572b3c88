"""Faults in the custom kernels: in products, in batch norm, and in the statistics that it keeps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from compiled_faults import (
    Lost,
    backward_without_the_mean,
    forward_with_variance_of_a_population,
    lose,
    losing,
)
from planting import Fault, replaced

from hpcai.kernels.batch_norm import numba_cpu as batch_norm
from hpcai.kernels.conv2d import Shape
from hpcai.kernels.cpu import epilogue
from hpcai.kernels.cpu.stored_arguments import Stored
from hpcai.kernels.operators import on_cpu
from hpcai.kernels.operators.block_plan import Rows
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

# --- convolutions


@contextmanager
def _convolution(faulty: str, lost: Callable[[Shape], Lost]) -> Iterator[None]:
    """The results of a direction lose numbers, in layers that Python calls and in programs of blocks."""

    def called(genuine: Callable[..., None]) -> Any:
        def convolve(direction: str, one: Any, other: Any, result: torch.Tensor, shape: Shape) -> None:
            genuine(direction, one, other, result, shape)
            if direction == faulty:
                lose(lost(shape), on_cpu.KINDS[result.dtype](1), result.data_ptr())

        return convolve

    def written(genuine: Callable[..., None]) -> Any:
        def add_product(self: Any, direction: str, shape: Shape, threads: int, arrays: Any, *then: Any) -> None:
            genuine(self, direction, shape, threads, arrays, *then)
            if direction == faulty:
                plan = Stored(lost(shape))
                self.add(losing(plan, self._one, *arrays), plan)

        return add_product

    with replaced(on_cpu, "convolve", called), replaced(Rows, "add_product", written):
        yield


def last_channel_not_computed() -> Fault:
    def lost(shape: Shape) -> Lost:
        images, channels, height, width = shape.y
        return Lost(channels - 1, images * height * width, channels, 1, False)

    return _convolution(FORWARD, lost)


def border_of_input_gradient_lost() -> Fault:
    def lost(shape: Shape) -> Lost:
        images, channels, height, width = shape.x
        return Lost((height - 1) * width * channels, images, height * width * channels, width * channels, False)

    return _convolution(INPUT_GRADIENT, lost)


def tap_of_weight_gradient_lost() -> Fault:
    def lost(shape: Shape) -> Lost:
        filters, channels, high, wide = shape.w
        return Lost(0, filters, high * wide * channels, channels, True)

    return _convolution(WEIGHT_GRADIENT, lost)


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
    return replaced(batch_norm, "_backward", lambda _: backward_without_the_mean)


def statistics_not_kept() -> Fault:
    return replaced(batch_norm, "forward_words", lambda genuine: lambda *given: genuine(
        *given[:-1], batch_norm.NO_RUNNING
    ))


def variance_not_that_of_a_sample() -> Fault:
    return replaced(batch_norm, "_forward", lambda _: forward_with_variance_of_a_population)
