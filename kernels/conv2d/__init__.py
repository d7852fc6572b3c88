"""Two-dimensional convolution (cross-correlation) without bias, and its gradients."""

from dataclasses import dataclass, fields
from functools import cached_property
from math import gcd, prod

from ..spec import FORWARD, INPUT_GRADIENT, Spec, fp32_tolerance, layer_nbytes
from ..spec import Shape as _Shape

Pair = tuple[int, int]


@dataclass(frozen=True)
class Shape(_Shape):
    """A convolution layer on `batch` images; pairs are (vertical, horizontal), padding is the same on both sides.

    Raises ValueError where a number other than the padding is not positive, the groups do not divide the channels, or
    the output would be empty.
    """

    channels: int
    height: int
    width: int
    filters: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def __post_init__(self) -> None:
        sizes = (self.batch, self.channels, self.height, self.width, self.filters, self.groups)
        if min(*sizes, *self.kernel, *self.stride, *self.dilation) < 1:
            raise ValueError(f"{self}: allowed: numbers from 1, padding excepted")
        if self.channels % self.groups or self.filters % self.groups:
            raise ValueError(f"{self}: groups must divide channels and filters")
        if min(self.y) < 1:
            raise ValueError(f"{self}: the output is empty")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Made once: plans are looked up by shape at every call."""
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    @cached_property
    def x(self) -> tuple[int, int, int, int]:
        """Dimensions of the input, NCHW."""
        return self.batch, self.channels, self.height, self.width

    @cached_property
    def w(self) -> tuple[int, int, int, int]:
        """Dimensions of the weights, OIHW."""
        return self.filters, self.channels // self.groups, *self.kernel

    @cached_property
    def y(self) -> tuple[int, int, int, int]:
        """Dimensions of the output, NCHW."""
        return self.batch, self.filters, self._extent(0, self.height), self._extent(1, self.width)

    def _extent(self, axis: int, size: int) -> int:
        span = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        return (size + 2 * self.padding[axis] - span) // self.stride[axis] + 1

    def inner(self, direction: str) -> int:
        """Terms of one element; a strided layer's input gradient meets only every stride-th tap of the kernel."""
        if direction == FORWARD:
            return self.channels // self.groups * prod(self.kernel)
        if direction == INPUT_GRADIENT:
            return self.filters // self.groups * prod(self._taps(axis) for axis in (0, 1))
        return self.batch * self.y[2] * self.y[3]

    def taps_inside(self, axis: int) -> int:
        """Pairs of an output pixel and a tap along an axis that meet the image and not its padding."""
        size, step, reach = self.x[2 + axis], self.stride[axis], self.dilation[axis]
        starts = range(-self.padding[axis], self.y[2 + axis] * step - self.padding[axis], step)
        return sum(0 <= start + tap * reach < size for start in starts for tap in range(self.kernel[axis]))

    def text(self, direction: str) -> str:
        """Input, filters, kernel, stride and padding; dilation and groups where there are any."""
        n, c, h, w = self.x
        pairs = {"k": self.kernel, "s": self.stride, "p": self.padding, "d": self.dilation}
        words = [f"{letter}{pair[0]}x{pair[1]}" for letter, pair in pairs.items() if letter != "d" or pair != (1, 1)]
        groups = [f"g{self.groups}"] if self.groups > 1 else []
        return " ".join([f"n{n} c{c} h{h} w{w} f{self.filters}", *words, *groups])

    def _taps(self, axis: int) -> int:
        period = self.stride[axis] // gcd(self.stride[axis], self.dilation[axis])
        return -(-self.kernel[axis] // period)


def operations(shape: Shape) -> int:
    """FLOP of one direction; all three are equal. 1 multiply-add = 2."""
    return 2 * prod(shape.w) * shape.batch * shape.y[2] * shape.y[3]


def needed_operations(shape: Shape) -> int:
    """FLOP of one direction without the taps that meet padding, which a kernel may skip; all three are equal."""
    taps = prod(shape.taps_inside(axis) for axis in (0, 1))
    return 2 * shape.batch * shape.filters * (shape.channels // shape.groups) * taps


def vendor_may_transform(shape: Shape, device: str) -> bool:
    """Whether cuDNN may compute by Winograd's algorithm: 3x3 windows of stride 1. torch has no switch against it."""
    plain = shape.stride == shape.dilation == (1, 1) and shape.groups == 1
    return plain and shape.kernel == (3, 3) and device.startswith("cuda")


SPEC = Spec[Shape](name="conv2d", operations=operations, nbytes=layer_nbytes, tolerance=fp32_tolerance)
