"""Convolution by torch, hence oneDNN or cuDNN, in channels_last: forward and backward as training calls them."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..arrays import poison
from ..providers import Prepared
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors
from . import Shape

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")

# Factor by which the transforms of Winograd's F(4x4, 3x3) raise the error of a direct sum
# (docs/decisions/0003-precision.md).
WINOGRAD_SLACK = 16.0
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def slack(shape: Shape, device: str) -> float:
    """cuDNN may compute 3x3 windows of stride 1 by Winograd's algorithm, and torch has no switch against it."""
    plain = shape.stride == shape.dilation == (1, 1) and shape.groups == 1
    return WINOGRAD_SLACK if plain and shape.kernel == (3, 3) and device.startswith("cuda") else 1.0


def convolve(x: Tensor, w: Tensor, bias: Tensor | None, shape: Any, converted: bool) -> Tensor:
    """Torch's convolution; `converted`: 16-bit tensors are computed in fp32, as tensor cores do, and converted back.

    Its gradients are then computed in fp32 from 16-bit values as well, and stored in 16 bits. `shape` is a `Shape` or a
    torch module: anything with stride, padding, dilation and groups.
    """
    window = (shape.stride, shape.padding, shape.dilation, shape.groups)
    if not converted:
        return functional.conv2d(x, w, bias, *window)
    return functional.conv2d(x.float(), w.float(), None if bias is None else bias.float(), *window).to(x.dtype)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """torch's convolution, or its backward for one operand, in each layout. See `Prepared`; torch takes the memory."""
    return [_Call(shape, direction, data, device, name).prepared() for name in LAYOUTS]


class _Call:
    """A product in one layout, and its last result."""

    def __init__(self, shape: Shape, direction: str, data: Tensors, device: str, layout: str) -> None:
        self.layout, self.slack, self.last = layout, slack(shape, device), torch.empty(0)
        x, w, g = (torch.from_numpy(tensor).to(device, memory_format=LAYOUTS[layout]) for tensor in data)
        window = (shape.stride, shape.padding, shape.dilation, False, (0, 0), shape.groups)
        wanted = [direction == INPUT_GRADIENT, direction == WEIGHT_GRADIENT, False]
        if direction == FORWARD:
            self.compute = lambda: torch.ops.aten.convolution(x, w, None, *window)
        else:
            backward, place = torch.ops.aten.convolution_backward, wanted.index(True)
            self.compute = lambda: backward(g, x, w, None, *window, wanted)[place]

    def __call__(self) -> None:
        """Compute, after the memory of the previous result is released."""
        self.last = torch.empty(0)
        self.last = self.compute()

    def prepared(self) -> Prepared:
        return Prepared(self, lambda: self.last.cpu().numpy(), self.poison_result, self.layout, self.slack)

    def poison_result(self) -> None:
        """Fill the result with NaN, so that a call that computes nothing is detected."""
        self.last.fill_(poison("float32"))
