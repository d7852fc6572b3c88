"""The layers of a residual block as one function of torch, with its gradients.

Where a product is the last that adds to the gradient of a value, its epilogue adds the rest of that gradient, and takes
the sums of the batch norm that has made the value; that of the block's input too if another block has made it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..conv2d import Shape
from ..cpu.epilogue import NONE
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from . import normalisation, on_cpu
from .norm_workspace import NormWorkspace

LAST = torch.channels_last
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


    @property
    def is_cut_off(self) -> bool:
        """Whether it is the result that tells where the ReLU has cut off, since something was added."""
        return self.relu and self.other is not None


class Norm(NamedTuple):
    """A batch norm that has made a value: its layer, its input, and its workspace."""

    layer: Layer
    x: Tensor
    workspace: NormWorkspace


def norm_before(x: Tensor) -> Norm | None:
    """The batch norm of a block that has made x, before the backward pass of that block."""
    return getattr(x.grad_fn, "last_norm", None)


class BlockFunction(Function):
    @staticmethod
    def forward(ctx: Any, block: tuple[Any, ...], x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.layers, ctx.shapes, ctx.norm_before = block
        values, moments, norms = [x], [], []
        for layer, shape, (w, scale, offset) in zip(ctx.layers, ctx.shapes, _by_layer(parameters), strict=True):
            norm = Norm(layer, torch.empty(shape.y, dtype=x.dtype, memory_format=LAST), _workspace(x, shape))
            summed = on_cpu.takes_epilogue(FORWARD, shape, x.dtype)
            then = norm.workspace.moments() if summed else NONE
            on_cpu.convolve(FORWARD, values[layer.source], w, norm.x, shape, then)
            other = None if layer.other is None else values[layer.other]
            given = (norm.x, other, scale, offset, layer.norm.eps, layer.relu, _running(layer.norm))
            y, *of_channels = normalisation.forward(*given, kept=norm.workspace.for_forward(summed))
            values.append(y)
            norms.append(norm)
            moments += of_channels
        ctx.workspaces, ctx.last_norm = [norm.workspace for norm in norms], norms[-1]
        kept = [value if _is_read(ctx.layers, number) else None for number, value in enumerate(values)]
        ctx.save_for_backward(*parameters, *kept, *(norm.x for norm in norms), *moments)
        return values[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        layers, count = ctx.layers, len(ctx.layers)
        parameters, values, convolved, moments = _parts(ctx.saved_tensors, count)
        norms = [ctx.norm_before, *map(Norm, layers, convolved, ctx.workspaces)]
        ctx.norm_before = ctx.last_norm = None  # each keeps a tensor that is not needed any more
        of_values = Gradients(layers, values, norms, gradients[0].resolve_neg())
        of_parameters: list[Tensor | None] = []
        for number in reversed(range(count)):
            layer, shape, (w, *vectors) = layers[number], ctx.shapes[number], parameters[number]
            g, y = of_values.of(number + 1), values[number + 1] if layer.is_cut_off else None
            known = (*vectors, *moments[number], layer.norm.eps, layer.relu)
            kept, into = ctx.workspaces[number].for_backward(g), of_values.spare(number + 1, g)
            dc, dother, dweight, dbias = normalisation.backward(g, convolved[number], y, *known, kept=kept, into=into)
            if layer.other is not None:
                of_values.add(layer.other, g if y is None else dother, fresh=y is not None)
            if layer.source or ctx.needs_input_grad[1]:
                of_values.add_product(number, dc, w, shape)
            wanted = ctx.needs_input_grad[2 + PARAMETERS * number]
            dw = _weight_gradient(values[layer.source], dc, shape) if wanted else None
            of_parameters = [dw, dweight, dbias, *of_parameters]
        return None, of_values.found[0], *of_parameters


class Gradients:
    """The gradients of values, each the sum of those by the layers that read it."""

    def __init__(
        self, layers: Sequence[Layer], values: Sequence[Tensor], norms: Sequence[Norm | None], given: Tensor
    ) -> None:
        """norms: those that have made the values; None if not known."""
        self._layers, self._values, self._norms = layers, values, norms
        self._fresh = set[int]()
        self.found: list[Tensor | None] = [*[None] * len(layers), given]

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
        self._put(value, gradient, fresh or before is not None)

    def _put(self, value: int, gradient: Tensor, fresh: bool) -> None:
        self.found[value] = gradient
        (self._fresh.add if fresh else self._fresh.discard)(value)

    def spare(self, value: int, gradient: Tensor) -> Tensor | None:
        """A value's gradient if nobody else has it or gets it, so that it may be overwritten."""
        layer = self._layers[value - 1]
        passed_on = layer.other is not None and not layer.is_cut_off
        return gradient if value in self._fresh and not passed_on else None

    def add_product(self, number: int, dc: Tensor, w: Tensor, shape: Shape) -> None:
        """Add the gradient by the convolution of a layer, by its epilogue where it can have one."""
        value = self._layers[number].source
        made = torch.empty(shape.x, dtype=dc.dtype, memory_format=LAST)
        if not on_cpu.takes_epilogue(INPUT_GRADIENT, shape, dc.dtype):
            on_cpu.convolve(INPUT_GRADIENT, dc, w, made, shape)
            self.add(value, made, fresh=True)
            return
        norm, rest = self._norm_of(value, number), self.found[value]
        rest = None if rest is None else rest.contiguous(memory_format=LAST)
        if norm is not None:
            y = self._values[value] if norm.layer.is_cut_off else None
            then = norm.workspace.gradients(made, norm.x, y, rest, norm.layer.relu)
        else:
            kept = None if rest is None else on_cpu.addition(made, rest)
            then = NONE if kept is None else kept.address
        on_cpu.convolve(INPUT_GRADIENT, dc, w, made, shape, then)
        self._put(value, made, fresh=True)
        if norm is not None:
            norm.workspace.promise(made)

    def _norm_of(self, value: int, number: int) -> Norm | None:
        """The batch norm that has made a value if its sums can be taken with this layer's gradient, the last part."""
        norm = self._norms[value]
        last = not any(value in (layer.source, layer.other) for layer in self._layers[:number])
        return norm if norm is not None and last and norm.workspace.threads >= torch.get_num_threads() else None


def _workspace(x: Tensor, shape: Shape) -> NormWorkspace:
    return NormWorkspace(on_cpu.KINDS[x.dtype], shape.filters)


def _weight_gradient(x: Tensor, dc: Tensor, shape: Shape) -> Tensor:
    made = torch.empty(shape.w, dtype=x.dtype, memory_format=LAST)
    on_cpu.convolve(WEIGHT_GRADIENT, x, dc, made, shape)
    return made


def _is_read(layers: Sequence[Layer], value: int) -> bool:
    """Whether the gradients need a value."""
    return any(layer.source == value for layer in layers) or (value > 0 and layers[value - 1].is_cut_off)


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
