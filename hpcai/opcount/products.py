"""The products of a case of `[kernels]`: of networks' layers, each shape once, attention, and square matrices.

Operations and bytes are counted from the shapes alone, so that a result can be checked without computing anything.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple

from hpcai import networks
from hpcai.errors import InputError
from hpcai.formulas.precision import OF_LAYERS
from hpcai.inputfile import Case
from hpcai.kernels import attention, conv2d, gemm
from hpcai.kernels.layers import SPECS, LayerShape, MeasuredShape, spec_of
from hpcai.kernels.spec import DIRECTIONS, DTYPES, FORWARD, INPUT_GRADIENT
from hpcai.networks.decoder import DECODERS
from hpcai.networks.graph import Graph, Layer
from hpcai.networks.layers import Conv, Dense
from hpcai.networks.resnet import ARCHITECTURES
from hpcai.networks.sequences import HEAD, CausalAttention

AUTO, SQUARE, PRODUCT = "auto", "square", "product"
OF_SQUARES = tuple(name for name in DTYPES if name not in OF_LAYERS)  # types that only squares are measured in
IMAGENET, SMALL = (3, 224, 1000), (3, 32, 10)  # channels, pixels a side and classes where the input does not say
SEQUENCE, SYMBOLS = 512, 256  # places of a sequence where the input does not say, and values of a byte
ATTENTION_TYPES = ("fp32", "fp16", "bf16")  # those that attention is measured in


class Product(NamedTuple):
    """One product: a direction of a layer, or two square matrices (direction `product`, `of` `square`).

    `of` names the network; `occurrences` are the layers that have it.
    """

    kernel: str
    direction: str
    layer: MeasuredShape
    of: str
    occurrences: int
    dtype: str

    @property
    def computed(self) -> str:
        """The direction that is computed.

        Squares use that of a layer's input gradient, which needs no transposition.
        """
        return INPUT_GRADIENT if self.direction == PRODUCT else self.direction

    @property
    def shape(self) -> str:
        """The shape as printed."""
        return self.layer.text(self.computed)

    @property
    def operations(self) -> int:
        """2 for each multiply-add."""
        return SPECS[self.kernel].operations_of(self.layer, self.computed)

    @property
    def nbytes(self) -> int:
        """Bytes of all operands and of the result, each once."""
        return SPECS[self.kernel].nbytes(self.layer, self.computed, self.dtype)

    @property
    def results(self) -> int:
        """Elements of the result."""
        return prod(self.layer.result(self.computed))


def requested(case: Case) -> list[Product]:
    """The products that a case asks for, in the order of SHAPES, then of PRECISION; without squares of `auto`."""
    found: dict[Product, None] = {}
    for value in map(str, case["SHAPES"]):
        if value.isdecimal():
            found |= dict.fromkeys(squares([int(value)], types_of_squares(case)))
        elif value != AUTO:
            for dtype in case["PRECISION"]:
                found |= dict.fromkeys(of_network(value, case.batch, case.resolution, dtype))
    return list(found)


def automatic(case: Case) -> bool:
    """Whether automatic square sizes are requested."""
    return AUTO in map(str, case["SHAPES"])


def types_of_squares(case: Case) -> tuple[str, ...]:
    """The types of square products."""
    return tuple(dict.fromkeys([*case["PRECISION"], *OF_SQUARES]))


def squares(sizes: Iterable[int], types: Sequence[str] = tuple(DTYPES)) -> list[Product]:
    """The square products of some sizes in some types, or in all."""
    return [Product("gemm", PRODUCT, gemm.Shape(n, n, n), SQUARE, 1, dtype) for n in sizes for dtype in types]


def of_network(name: str, batch: int, resolution: int = 0, dtype: str = "fp32") -> list[Product]:
    """The distinct products of a training step in a type, in the order of the layers."""
    graph = graph_of(name, resolution)
    times = Counter(_measured(graph, batch, dtype))
    return [Product(spec_of(shape).name, direction, shape, name, n, dtype) for (shape, direction), n in times.items()]


def graph_of(name: str, resolution: int = 0) -> Graph:
    """The network that a name in SHAPES means, at its own or another resolution.

    Networks for small images see 3 channels of 32 x 32 and have 10 classes, others 224 x 224 and 1000; language models
    see 512 bytes. InputError for others.
    """
    if name in DECODERS:
        return networks.build(name, (1, resolution or SEQUENCE), 1, SYMBOLS)
    if name not in ARCHITECTURES:
        raise InputError(f"no image size is known for the network {name!r}; allowed are {', '.join(ARCHITECTURES)}")
    channels, side, classes = SMALL if ARCHITECTURES[name].small_images_only else IMAGENET
    return networks.build(name, (resolution or side,) * 2, channels, classes)


def layers_of(graph: Graph, batch: int) -> Counter[tuple[str, str, bool]]:
    """How many layers a network has of each kernel and shape as printed, with a gradient of the input or without."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for shape, directions in shapes_of(graph, batch):
        found[spec_of(shape).name, shape.text(FORWARD), INPUT_GRADIENT in directions] += 1
    return found


def of_layers(graph: Graph, batch: int) -> Iterator[tuple[LayerShape, str]]:
    """Shape and direction of each product of a training step, in the order of the layers."""
    return ((shape, direction) for shape, directions in shapes_of(graph, batch) for direction in directions)


def _measured(graph: Graph, batch: int, dtype: str) -> Iterator[tuple[MeasuredShape, str]]:
    """As `of_layers`, with attention in the types that it is measured in."""
    for layer in graph.layers:
        if isinstance(layer.op, Conv | Dense):
            shape = shape_of(layer.op, graph.shapes[layer.inputs[0]], batch)
            yield from ((shape, direction) for direction in _directions(graph, layer))
        elif isinstance(layer.op, CausalAttention) and dtype in ATTENTION_TYPES:
            places, features = graph.shapes[layer.name]
            yield from ((attention.Shape(batch, features // HEAD, places, HEAD), each) for each in attention.PASSES)


def shapes_of(graph: Graph, batch: int) -> Iterator[tuple[LayerShape, tuple[str, ...]]]:
    """Of each convolution and dense layer its shape, and the directions that training runs."""
    for layer in graph.layers:
        if isinstance(layer.op, Conv | Dense):
            yield shape_of(layer.op, graph.shapes[layer.inputs[0]], batch), _directions(graph, layer)


def _directions(graph: Graph, layer: Layer) -> tuple[str, ...]:
    """All three, except the input gradient where no parameter is upstream."""
    unwanted = INPUT_GRADIENT if graph.trained.isdisjoint(layer.inputs) else None
    return tuple(direction for direction in DIRECTIONS if direction != unwanted)


def shape_of(op: Conv | Dense, source: tuple[int, ...], batch: int) -> LayerShape:
    """A layer's shape from its operation and the dimensions of its input for one sample."""
    if isinstance(op, Dense):
        return gemm.Shape(batch * prod(source[:-1]), source[-1], op.features)
    channels, height, width = source
    window = (op.kernel, op.stride, op.padding, op.dilation, op.groups)
    return conv2d.Shape(batch, channels, height, width, op.channels, *window)
