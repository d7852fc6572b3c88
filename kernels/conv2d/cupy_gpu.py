"""Convolution and its gradients on a GPU by conv2d.cu, in torch's memory, on the current stream.

Tensors are channels-last (torch.channels_last); others are converted, and results converted back. A layer that takes
every pixel is a matrix product (gemm.cu). Launches follow from the addresses and are cached, so later calls plan
nothing and never wait. The first call for a shape may compile kernels and time candidate tiles
(kernels/conv2d/cuda/autotune.py).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..cuda.architecture import Target
from ..cuda.gpu import gpu
from ..cuda.launch import Launch, keeping
from ..cuda.launch_plan import LaunchPlan
from ..cuda.program import Program
from ..cuda.tensor_map import encoded
from ..cuda.tile_candidates import gathering, gathering_engines
from ..cuda.tiling import Result
from ..gemm.cuda.tensors import ProductTensors, layout_of
from ..gemm.cupy_gpu import KNOWN
from ..gemm.cupy_gpu import plan as plan_of_matrices
from ..providers import Call, Prepared, Unavailable
from ..spec import DTYPES, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors, dtype_of
from ..tensors import converted, prepared, result_of
from . import Shape
from .cuda import autotune as choice
from .cuda import launches as convolutions
from .cuda import padding
from .cuda.padding import Convolution
from .cuda.tensors import Window, as_matrices, check, in_order, layer_of, shape_of, takes_every_pixel, usable

PROVIDER = "custom"
DEVICES = ("cuda",)

LAST = torch.channels_last
# Types to compile in tests without a GPU.
SHOWN = {FORWARD: ("fp32", "tf32", "bf16", "int8"), INPUT_GRADIENT: ("fp32", "fp16"), WEIGHT_GRADIENT: ("fp64", "bf16")}


def forward(
    x: Tensor,
    w: Tensor,
    y: Tensor,
    type: str,
    window: Window = Window(),  # noqa: B008 - immutable
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    added: Tensor | None = None,
    relu: bool = False,
    factor: float = 1.0,
) -> None:
    """y = relu(scale * factor * (x * w) + bias + added) in place; terms that are not given are left out.

    x is [batch, channels, height, width], w [filters, channels / groups, taps down, taps across], y and `added` as the
    output; scale and bias are [filters]. All tensors are on one GPU, with the types of `type` in KINDS; int8 has no
    epilogue. y may be `added`, else it must not overlap an operand. ValueError if tensors do not fit, Unavailable if
    the GPU lacks instructions for the type.
    """
    _compute(FORWARD, (x, w, y, bias, scale, added), type, window, relu, factor)


def input_gradient(g: Tensor, w: Tensor, dx: Tensor, type: str, window: Window = Window()) -> None:  # noqa: B008
    """dx in place, of g, the gradient of y; as `forward`. dx must not overlap g or w. Not for int8."""
    _compute(INPUT_GRADIENT, (g, w, dx, None, None, None), type, window)


def weight_gradient(x: Tensor, g: Tensor, dw: Tensor, type: str, window: Window = Window()) -> None:  # noqa: B008
    """dw in place, of x and g, the gradient of y; as `forward`. dw must not overlap x or g. Not for int8."""
    _compute(WEIGHT_GRADIENT, (x, g, dw, None, None, None), type, window)


def _compute(
    direction: str, given: tuple[Any, ...], type: str, window: Window, relu: bool = False, factor: float = 1.0
) -> None:
    a, b, c, *further = given
    places = ProductTensors(
        layout_of(a), layout_of(b), layout_of(c), *[None if each is None else layout_of(each) for each in further]
    )
    launch_plan = plan(direction, type, places, window, relu, factor)
    if launch_plan is None:
        _copied(direction, given, type, window, relu, factor)
    else:
        launch_plan(launch_plan.workspace())


@lru_cache(KNOWN)
def plan(
    direction: str, type: str, given: ProductTensors, window: Window, relu: bool = False, factor: float = 1.0
) -> LaunchPlan | None:
    """The launch plan; None if a tensor must be copied first."""
    shape = shape_of(direction, given, window)
    check(shape, type, given, relu or factor != 1.0)
    if type == "int8" and direction != FORWARD:
        raise Unavailable(f"the {direction.replace('_', ' ')} of a convolution of bytes; allowed: forward")
    if not usable(given):
        return None
    if takes_every_pixel(shape):
        return plan_of_matrices(type, as_matrices(direction, given), relu, factor)
    task = Convolution(type, direction, layer_of(shape))
    plus, times, shift = (each.address if each else 0 for each in (given.added, given.scale, given.bias))
    result = Result(given.c.address, choice.pitch(task), plus, times, shift, factor, relu)
    device = torch.device("cuda", given.c.device)
    tile, processors = choice.tile_of(task, device), gpu(device).processors
    addresses = dict(zip(choice.OPERANDS[direction], (given.a.address, given.b.address), strict=True))

    def made(workspace: int) -> list[Launch]:
        return padding.launches(task, tile, processors, encoded, addresses, result, workspace)

    return LaunchPlan(device, padding.workspace_bytes(task, tile), made)


def _copied(
    direction: str, given: tuple[Any, ...], type: str, window: Window, relu: bool, factor: float
) -> None:
    """Compute with tensors in the layout of the kernels."""
    a, b, c, bias, scale, added = given
    one, other, more = (each if each is None or in_order(layout_of(each)) else _ordered(each) for each in (a, b, added))
    result = c if in_order(layout_of(c)) else torch.empty_like(c, memory_format=LAST)
    vectors = (None if each is None else each.float().contiguous() for each in (bias, scale))
    _compute(direction, (one, other, result, *vectors, more), type, window, relu, factor)
    if result is not c:
        c.copy_(result)


def _ordered(tensor: Tensor) -> Tensor:
    """A channels-last copy, aligned for vectors."""
    return tensor.clone(memory_format=LAST)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant, with its workspace allocated. See `Prepared`.

    Unavailable as `forward` says, of gradients of bytes, and of what is larger than the kernels can count.
    """
    dtype, kinds = dtype_of(data), DTYPES[dtype_of(data)]
    convert, c = converted(kinds, device, LAST), result_of(shape.result(direction), kinds, device, LAST)
    window = Window(shape.stride, shape.padding, shape.dilation, shape.groups)

    def bind(data: Tensors) -> Call:
        x, w, g = map(convert, data)
        a, b = {FORWARD: (x, w), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (x, g)}[direction]
        try:
            launch_plan = plan(direction, dtype, ProductTensors(layout_of(a), layout_of(b), layout_of(c)), window)
        except ValueError as error:
            raise Unavailable(str(error)) from None
        assert launch_plan is not None, "the channels are last"
        workspace = launch_plan.workspace()
        return keeping(lambda: launch_plan(workspace), a, b)

    return [prepared(bind, data, c)]


def programs(target: Target) -> Iterator[Program]:
    """Kernels of each direction and engine, of the smallest tile, to test compilation without a GPU."""
    yield from padding.programs()
    for direction, types in SHOWN.items():
        for type in types:
            for engine in gathering_engines(type, direction, target):
                for tile in gathering(type, direction, engine, target, boxes=True)[-1:]:
                    yield convolutions.program(type, direction, tile)
