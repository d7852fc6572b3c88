"""Convolution by torch, hence oneDNN or cuDNN, in channels_last: forward and backward as training calls them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..arrays import Once, poison
from ..providers import Call, Prepared
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors
from . import Shape, vendor_may_transform

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")

# Factor by which the transforms of Winograd's F(4x4, 3x3) raise the error of a direct sum
# (docs/decisions/0003-precision.md).
WINOGRAD_SLACK = 16.0
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def slack(shape: Shape, device: str) -> float:
    """Factor of the error of a direct sum that the vendor's algorithm may reach."""
    return WINOGRAD_SLACK if vendor_may_transform(shape, device) else 1.0


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
        self.shape, self.direction, self.layout, self.slack = shape, direction, layout, slack(shape, device)
        self.converted = Once(lambda array: torch.from_numpy(array).to(device, memory_format=LAYOUTS[layout]))
        self.last, self.data = torch.full(shape.result(direction), poison("float32"), device=device), data

    def bind(self, data: Tensors) -> Call:
        """The call with these operands."""
        compute = self._computation(*(self.converted(tensor) for tensor in data))

        def call() -> None:
            self.last = torch.empty(0)  # releases the memory of the previous result
            self.last = compute()

        return call

    def _computation(self, x: Tensor, w: Tensor, g: Tensor) -> Callable[[], Tensor]:
        shape = self.shape
        window = (shape.stride, shape.padding, shape.dilation, False, (0, 0), shape.groups)
        if self.direction == FORWARD:
            return lambda: torch.ops.aten.convolution(x, w, None, *window)
        wanted = [self.direction == INPUT_GRADIENT, self.direction == WEIGHT_GRADIENT, False]
        backward, place = torch.ops.aten.convolution_backward, wanted.index(True)
        return lambda: backward(g, x, w, None, *window, wanted)[place]

    def prepared(self) -> Prepared:
        return Prepared(
            self.bind(self.data), lambda: self.last.cpu().numpy(), self.poison_result, self.layout, self.slack,
            self.bind, lambda: self.last,
        )  # fmt: skip

    def poison_result(self) -> None:
        """Fill the result with NaN, so that a call that computes nothing is detected."""
        self.last.fill_(poison("float32"))
