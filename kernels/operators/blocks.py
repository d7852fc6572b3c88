"""Convolutions, each with its batch norm, addition and ReLU, as one function of torch: a residual block in training.

The kernels and their numbers are those of `direct.convolution` and `direct.batch_norm`. Between them there is neither
torch's graph nor a check of sizes, which costs a tenth of the step of a small network.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..conv2d import Shape
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from . import direct, normalisation, on_cpu, products

LAST = torch.channels_last
Size = tuple[int, ...]
PARAMETERS = 3  # of a layer: weights, scale and offset


class Layer(NamedTuple):
    """A convolution with its batch norm; values are counted from 0, the block's input, in the order of the layers.

    other: the value that is added, if any.
    """

    convolution: nn.Conv2d
    norm: nn.BatchNorm2d
    relu: bool
    source: int
    other: int | None


Custom = Callable[[Size], bool]  # whether all products of a layer are custom, for images of this size


class Block:
    """Layers of which the last one's result is the block's."""

    def __init__(self, layers: Sequence[Layer], custom: Sequence[Custom]) -> None:
        """custom: of each layer."""
        self.layers, self._custom = tuple(layers), tuple(custom)
        self._known: dict[Size, list[Shape]] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """The result, channels last, for training; `applies` must hold. Running moments move."""
        parameters = [
            each for layer in self.layers for each in (layer.convolution.weight, layer.norm.weight, layer.norm.bias)
        ]
        made: Tensor = BlockFunction.apply(self, x, *parameters)
        return made

    def applies(self, x: Tensor) -> bool:
        """Whether it can compute these images, by the kernels that compute its layers one by one."""
        return (
            x.device.type == "cpu"
            and torch.is_grad_enabled()
            and direct.applies(x)
            and products.has_epilogue()
            and not torch.autograd._profiler_enabled()  # which shows layers by their names
            and all(_is_plain(layer, x) for layer in self.layers)
            and bool(self.shapes(tuple(x.shape)))
        )

    def shapes(self, size: Size) -> list[Shape]:
        """The shapes of the convolutions for images of this size; none if some product is not custom."""
        if size not in self._known:
            found = self._shapes(size)
            every = all(custom(shape.x) for custom, shape in zip(self._custom, found, strict=True))
            self._known[size] = found if every else []
        return self._known[size]

    def _shapes(self, size: Size) -> list[Shape]:
        sizes, found = [size], []
        for layer in self.layers:
            part = layer.convolution
            window = (part.stride, part.padding, part.dilation, part.groups)
            found.append(products.shape_of(sizes[layer.source], part.weight.shape, *window))
            sizes.append(found[-1].y)
        return found


def _is_plain(layer: Layer, x: Tensor) -> bool:
    """Whether a layer is in training, of the images' type, without hooks, and its kernels exist."""
    convolution, norm = layer.convolution, layer.norm
    return (
        norm.training
        and convolution.weight.dtype == norm.weight.dtype == x.dtype
        and convolution.bias is None
        and norm.momentum is not None
        and norm.running_mean is not None
        and normalisation.takes(x, convolution.out_channels)
        and not any(part._forward_hooks or part._forward_pre_hooks for part in (convolution, norm))
    )


class BlockFunction(Function):
    @staticmethod
    def forward(ctx: Any, block: Block, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.block, ctx.shapes = block, block.shapes(tuple(x.shape))
        values, convolved, moments = [x], [], []
        for layer, shape, (w, scale, offset) in zip(block.layers, ctx.shapes, _by_layer(parameters), strict=True):
            c = torch.empty(shape.y, dtype=x.dtype, memory_format=LAST)
            on_cpu.convolve(FORWARD, values[layer.source], w, c, shape)
            other = None if layer.other is None else values[layer.other]
            y, *of_channels = normalisation.forward(
                c, other, scale, offset, layer.norm.eps, layer.relu, _running(layer.norm)
            )
            values.append(y)
            convolved.append(c)
            moments += of_channels
        kept = [value if _is_read(block.layers, number) else None for number, value in enumerate(values)]
        ctx.save_for_backward(*parameters, *kept, *convolved, *moments)
        return values[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        layers, count = ctx.block.layers, len(ctx.block.layers)
        parameters, values, convolved, moments = _parts(ctx.saved_tensors, count)
        of_values = Gradients(count, gradients[0].resolve_neg())
        of_parameters: list[Tensor | None] = []
        for number in reversed(range(count)):
            layer, shape, (w, *vectors) = layers[number], ctx.shapes[number], parameters[number]
            g, y = of_values.of(number + 1), values[number + 1] if _is_cut_off(layer) else None
            known = (*vectors, *moments[number], layer.norm.eps, layer.relu)
            dc, dother, dweight, dbias = normalisation.backward(g, convolved[number], y, *known)
            if layer.other is not None:
                of_values.add(layer.other, g if y is None else dother, fresh=y is not None)
            if layer.source or ctx.needs_input_grad[1]:
                of_values.add(layer.source, _product(INPUT_GRADIENT, dc, w, shape.x, shape), fresh=True)
            wanted = ctx.needs_input_grad[2 + PARAMETERS * number]
            dw = _product(WEIGHT_GRADIENT, values[layer.source], dc, shape.w, shape) if wanted else None
            of_parameters = [dw, dweight, dbias, *of_parameters]
        return None, of_values.found[0], *of_parameters


class Gradients:
    """The gradients of values, each the sum of those by the layers that read it."""

    def __init__(self, last: int, given: Tensor) -> None:
        self.found: list[Tensor | None] = [*[None] * last, given]

    def of(self, value: int) -> Tensor:
        """A value's gradient, which is not needed any more."""
        (found,), self.found[value:] = self.found[value:], []
        assert found is not None, "the last value that a block has made is read"
        return found

    def add(self, value: int, gradient: Tensor, *, fresh: bool) -> None:
        """fresh: nobody else has this tensor, so that it may hold the sum."""
        before = self.found[value]
        if before is not None:
            gradient = gradient.add_(before) if fresh else gradient + before
        self.found[value] = gradient


def _is_read(layers: Sequence[Layer], value: int) -> bool:
    """Whether the gradients need a value."""
    return any(layer.source == value for layer in layers) or (value > 0 and _is_cut_off(layers[value - 1]))


def _is_cut_off(layer: Layer) -> bool:
    """Whether it is the result that tells where the ReLU of a layer has cut off, since something was added."""
    return layer.relu and layer.other is not None


def _by_layer(parameters: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    return [parameters[begin : begin + PARAMETERS] for begin in range(0, len(parameters), PARAMETERS)]


def _parts(saved: Sequence[Tensor], count: int) -> tuple[Any, ...]:
    """Parameters of each layer, values, results of the convolutions, and the moments of these."""
    of_values = PARAMETERS * count
    convolved = of_values + count + 1
    moments = saved[convolved + count :]
    pairs = [moments[begin : begin + 2] for begin in range(0, len(moments), 2)]
    return _by_layer(saved[:of_values]), saved[of_values:convolved], saved[convolved : convolved + count], pairs


def _running(norm: nn.BatchNorm2d) -> normalisation.Moments:
    assert norm.momentum is not None and norm.running_mean is not None and norm.running_var is not None
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    return norm.running_mean, norm.running_var, norm.momentum


def _product(direction: str, one: Tensor, other: Tensor, size: tuple[int, ...], shape: Shape) -> Tensor:
    made = torch.empty(size, dtype=one.dtype, memory_format=LAST)
    on_cpu.convolve(direction, one, other, made, shape)
    return made
