"""A third provider of the convolution, by torch's operators in their plain layout."""

import torch

from hpcai.kernels.arrays import poisoned, prepared
from hpcai.kernels.conv2d import Shape
from hpcai.kernels.providers import Call, Prepared
from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT, Tensors

PROVIDER = "plain"
DEVICES = ("cpu",)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """torch.nn.functional.conv2d, or torch.nn.grad; the result is copied into the output array."""
    window = (shape.stride, shape.padding, shape.dilation, shape.groups)
    result = poisoned(shape.result(direction), "float32")

    def bind(data: Tensors) -> Call:
        x, w, g = map(torch.from_numpy, data)

        def call() -> None:
            if direction == FORWARD:
                found = torch.nn.functional.conv2d(x, w, None, *window)
            elif direction == INPUT_GRADIENT:
                found = torch.nn.grad.conv2d_input(shape.x, w, g, *window)
            else:
                found = torch.nn.grad.conv2d_weight(x, shape.w, g, *window)
            result[...] = found.numpy()

        return call

    return [prepared(bind, data, result)]
