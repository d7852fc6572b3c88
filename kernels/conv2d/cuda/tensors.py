"""Layer and operands of a convolution from addresses, sizes and strides of torch tensors."""

from typing import NamedTuple

from ...cuda.tiling import KINDS
from ...gemm.cuda.tensors import ProductTensors, TensorLayout, is_contiguous
from ...spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .. import Pair, Shape
from .geometry import Axis, ConvolutionLayer


class Window(NamedTuple):
    """Stride, padding, dilation and groups; pairs are (down, across)."""

    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1


def shape_of(direction: str, given: ProductTensors, window: Window) -> Shape:
    """The layer of these operands and result. ValueError if there is none."""
    sizes = [each.size for each in by_name(direction, given)]
    if any(len(size) != 4 for size in sizes):
        raise ValueError(f"conv2d of {sizes}, input, weights and output; allowed: four dimensions each")
    (batch, channels, height, width), (filters, _, *taps), _ = sizes
    shape = Shape(batch, channels, height, width, filters, (taps[0], taps[1]), *window)
    if sizes != [shape.x, shape.w, shape.y] or not all(map(all, sizes)):
        allowed = [shape.x, shape.w, shape.y]
        raise ValueError(f"conv2d of {sizes}, input, weights and output, with {window}; allowed: {allowed}, no size 0")
    return shape


def by_name(direction: str, given: ProductTensors) -> tuple[TensorLayout, TensorLayout, TensorLayout]:
    """Input, weights and output, or their gradients."""
    a, b, c = given[:3]
    return {FORWARD: (a, b, c), INPUT_GRADIENT: (c, b, a), WEIGHT_GRADIENT: (a, c, b)}[direction]


def check(shape: Shape, type: str, given: ProductTensors, changed: bool) -> None:
    """Raise ValueError if tensors do not fit a convolution; `changed`: the epilogue has a factor or a ReLU."""
    if type not in KINDS:
        raise ValueError(f"conv2d in {type}; allowed: {', '.join(KINDS)}")
    kind, further = KINDS[type], [each and each.size for each in given[3:]]
    allowed = ((shape.filters,), (shape.filters,), shape.y)
    if any(size not in (None, right) for size, right in zip(further, allowed, strict=True)):
        raise ValueError(f"conv2d with bias, scale and added of {further}; allowed: {allowed}")
    dtypes = [each.dtype for each in (*given[:3], given.added) if each]
    wanted = [kind.operand, kind.operand, kind.result, kind.result][: len(dtypes)]
    if dtypes != wanted:
        raise ValueError(f"conv2d in {type} of {', '.join(dtypes)}; allowed: {', '.join(wanted)}")
    if type == "int8" and (changed or any(given[3:])):
        raise ValueError("conv2d in int8 with bias, scale, factor, ReLU or something added; allowed: the bare sums")
    if len({each.device for each in given if each}) > 1 or given.c.device < 0:
        raise ValueError("conv2d of tensors that are not all of the same GPU")


def usable(given: ProductTensors) -> bool:
    """Whether the kernels can use the tensors without a copy."""
    pictures = [each for each in (given.a, given.b, given.c, given.added) if each]
    vectors = [each for each in (given.bias, given.scale) if each]
    return all(each.dtype == "float32" and is_contiguous(each) for each in vectors) and all(map(in_order, pictures))


def in_order(at: TensorLayout) -> bool:
    """Whether a tensor is channels-last, contiguous, and aligned to 16 bytes."""
    _, channels, height, width = at.size
    wanted = (height * width * channels, 1, width * channels, channels)
    lies = all(size == 1 or own == right for size, own, right in zip(at.size, at.strides, wanted, strict=True))
    return lies and at.address % 16 == 0


def takes_every_pixel(shape: Shape) -> bool:
    """Whether the layer is a matrix product: 1 x 1, stride 1, no padding, one group."""
    plain = shape.kernel == shape.stride == (1, 1) and shape.padding == (0, 0)
    return plain and shape.groups == 1


def as_matrices(direction: str, given: ProductTensors) -> ProductTensors:
    """The tensors of the equivalent product A B, from pixels x channels, filters x channels and pixels x filters."""
    x, w, y = (_matrix(each) for each in by_name(direction, given))
    a, b, c = {FORWARD: (x, w.transposed, y), INPUT_GRADIENT: (y, w, x), WEIGHT_GRADIENT: (y.transposed, x, w)}[
        direction
    ]
    return ProductTensors(a, b, c, given.bias, given.scale, given.added and _matrix(given.added))


def _matrix(at: TensorLayout) -> TensorLayout:
    images, channels, height, width = at.size
    return at._replace(size=(images * height * width, channels), strides=(channels, 1))


def layer_of(shape: Shape) -> ConvolutionLayer:
    """The layer in the form of the kernels' plans."""
    window = (shape.kernel, shape.stride, shape.padding, shape.dilation)
    down, across = (Axis(*side) for side in zip((shape.height, shape.width), shape.y[2:], *window, strict=True))
    return ConvolutionLayer(shape.batch, shape.w[1], shape.filters // shape.groups, shape.groups, down, across)
