"""The products that a case of `[kernels]` asks for: of a network's layers, each shape once, and of square matrices.

Operations and bytes are counted here from the shapes alone, so that a result can be checked without its kernels.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from hpcai import networks
from hpcai.errors import InputError
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Conv, Dense
from hpcai.networks.resnet import ARCHITECTURES

AUTO, SQUARE, PRODUCT = "auto", "square", "product"
DIRECTIONS = ("forward", "input_gradient", "weight_gradient")
COMPUTED = {"forward": 2, "input_gradient": 0, "weight_gradient": 1, PRODUCT: 2}  # of input, weights and output
# Bytes of an element of the operands, and of the result.
BYTES = {"fp32": (4, 4), "fp64": (8, 8), "int8": (1, 4), "tf32": (4, 4), "fp16": (2, 2), "bf16": (2, 2)}
ON_GPUS = ("tf32", "fp16", "bf16")  # types that nobody multiplies on a CPU as tensor cores do
OF_SQUARES = ("fp64", "int8")  # types that squares have besides those of PRECISION
IMAGENET, SMALL = (3, 224, 1000), (3, 32, 10)  # channels, pixels a side and classes where the input does not say


class Product(NamedTuple):
    """One product: `sizes` are the dimensions of the layer or, of a square, of the matrices, in their kernel's order.

    `of` names the network, or is `square`; `occurrences` are the layers that have it. Bytes count every operand once.
    """

    kernel: str
    direction: str
    sizes: tuple[Any, ...]
    of: str
    occurrences: int
    dtype: str

    @property
    def shape(self) -> str:
        """The shape in words: letter and number, the same for all products that are alike."""
        return _convolution_text(*self.sizes) if self.kernel == "conv2d" else _matrices_text(self)

    @property
    def operations(self) -> int:
        """2 for each multiply-add."""
        if self.kernel == "gemm":
            return 2 * prod(self.sizes)
        _, w, y = self.elements
        return 2 * w * (y // self.sizes[4])  # each weight meets each output pixel of one filter

    @property
    def nbytes(self) -> int:
        """Bytes of all operands and of the result."""
        tensors, (operand, result) = self.elements, BYTES[self.dtype]
        computed = tensors[COMPUTED[self.direction]]
        return (sum(tensors) - computed) * operand + computed * result

    @property
    def elements(self) -> tuple[int, int, int]:
        """Elements of input, weights and output."""
        if self.kernel == "gemm":
            batch, features, outputs = self.sizes
            return batch * features, outputs * features, batch * outputs
        batch, channels, height, width, filters, kernel, *_, groups = self.sizes
        pixels = prod(_output(self.sizes))
        return batch * channels * height * width, filters * channels // groups * prod(kernel), batch * filters * pixels


def asked(settings: Mapping[str, Any]) -> list[Product]:
    """The products that the settings ask for, in the order of SHAPES, then of PRECISION; without squares of `auto`."""
    found: dict[Product, None] = {}
    for value in map(str, settings["SHAPES"]):
        if value.isdecimal():
            found |= dict.fromkeys(squares([int(value)], types_of_squares(settings)))
        elif value != AUTO:
            for dtype in settings["PRECISION"]:
                found |= dict.fromkeys(of_network(value, settings["BATCH"], settings["RESOLUTION"], dtype))
    return list(found)


def automatic(settings: Mapping[str, Any]) -> bool:
    """Whether squares of sizes that the machine decides on are asked for as well."""
    return AUTO in map(str, settings["SHAPES"])


def types_of_squares(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The types that square matrices are multiplied in."""
    return tuple(dict.fromkeys([*settings["PRECISION"], *OF_SQUARES]))


def squares(sizes: Iterable[int], types: Sequence[str] = tuple(BYTES)) -> list[Product]:
    """The square products of some sizes in some types, or in all."""
    return [Product("gemm", PRODUCT, (n, n, n), SQUARE, 1, dtype) for n in sizes for dtype in types]


def of_network(name: str, batch: int, resolution: int = 0, dtype: str = "fp32") -> list[Product]:
    """The distinct products of a training step in a type, in the order of the layers."""
    graph = graph_of(name, resolution)
    times = Counter(found for layer in graph.layers for found in _of_layer(graph, layer, batch))
    return [Product(kernel, direction, sizes, name, n, dtype) for (kernel, direction, sizes), n in times.items()]


def graph_of(name: str, resolution: int = 0) -> Graph:
    """The network that a name in SHAPES means, at its own resolution or another.

    Networks for small pictures see 3 channels of 32 x 32 and tell 10 classes, others 224 x 224 and 1000. InputError for
    one that does not tell classes of pictures.
    """
    if name not in ARCHITECTURES:
        raise InputError(f"no pictures are known for the network {name!r}; allowed are {', '.join(ARCHITECTURES)}")
    channels, side, classes = SMALL if ARCHITECTURES[name].small_images_only else IMAGENET
    return networks.build(name, (resolution or side,) * 2, channels, classes)


def layers_of(graph: Graph, batch: int) -> Counter[tuple[str, str, bool]]:
    """How many layers a network has of each kernel and shape in words, with a gradient of the input or without one."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for layer in graph.layers:
        if isinstance(layer.op, Conv | Dense):
            kernel, sizes = _sizes(layer.op, graph.shapes[layer.inputs[0]], batch)
            shape = Product(kernel, DIRECTIONS[0], sizes, "", 1, "fp32").shape
            found[kernel, shape, not graph.trained.isdisjoint(layer.inputs)] += 1
    return found


def _of_layer(graph: Graph, layer: Layer, batch: int) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    op = layer.op
    if isinstance(op, Conv | Dense):
        kernel, sizes = _sizes(op, graph.shapes[layer.inputs[0]], batch)
        for direction in DIRECTIONS:
            if direction != "input_gradient" or not graph.trained.isdisjoint(layer.inputs):
                yield kernel, direction, sizes


def _sizes(op: Conv | Dense, source: tuple[int, ...], batch: int) -> tuple[str, tuple[Any, ...]]:
    if isinstance(op, Dense):
        return "gemm", (batch * prod(source[:-1]), source[-1], op.features)
    return "conv2d", (batch, *source, op.channels, op.kernel, op.stride, op.padding, op.dilation, op.groups)


def _output(sizes: tuple[Any, ...]) -> tuple[int, int]:
    """Rows and columns of a convolution's output."""
    _, _, *image, _, kernel, stride, padding, dilation, _ = sizes
    first, second = (
        (image[a] + 2 * padding[a] - dilation[a] * (kernel[a] - 1) - 1) // stride[a] + 1 for a in (0, 1)
    )
    return first, second


def _convolution_text(
    n: int, c: int, h: int, w: int, f: int, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> str:
    pairs = {"k": kernel, "s": stride, "p": padding, "d": dilation}
    words = [f"{letter}{pair[0]}x{pair[1]}" for letter, pair in pairs.items() if letter != "d" or pair != (1, 1)]
    return " ".join([f"n{n} c{c} h{h} w{w} f{f}", *words, *([f"g{groups}"] if groups > 1 else [])])


def _matrices_text(product: Product) -> str:
    """m x k by k x n, as the direction multiplies them."""
    batch, features, outputs = product.sizes
    m, n, k = {
        "forward": (batch, outputs, features),
        "input_gradient": (batch, features, outputs),
        "weight_gradient": (outputs, features, batch),
        PRODUCT: (batch, outputs, features),
    }[product.direction]
    return f"m{m} n{n} k{k}"
