"""A residual block for images of one size: layers, shapes, workspace; and how a program of it is written."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from ..batch_norm.cpu.passes import sums_behind
from ..conv2d import Shape
from ..cpu import epilogue
from ..cpu.channel_sums import ChannelSums
from ..cpu.program import GIVEN, ZERO, Address, Number, Program, row
from . import on_cpu

Size = tuple[int, ...]


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
    """Byte offsets of a batch norm's numbers in a workspace: mean, variance, table, sums of threads, and the end."""

    channels: int
    mean: int
    variance: int
    table: int
    sums: ChannelSums
    end: int


class Plan(NamedTuple):
    """A block for images of one size: its layers and their shapes, 1 of the type, threads, and places of its norms."""

    layers: tuple[Layer, ...]
    shapes: tuple[Shape, ...]
    one: Any
    threads: int
    norms: tuple[Norm, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the workspace."""
        return self.norms[-1].end


class Named(NamedTuple):
    """A program, the names of its bases, sizes of the arrays that it fills, and the name of its result."""

    program: Program
    names: tuple[str, ...]
    fills: dict[str, Size]
    result: str | None
    nbytes: int  # of the memory of its products


def plan(layers: tuple[Layer, ...], shapes: tuple[Shape, ...], one: Any, threads: int) -> Plan:
    """The plan of a block, with the places of its norms one after the other."""
    norms, end = [], 0
    for shape in shapes:
        norms.append(norm_at(end, shape.filters, one.itemsize, threads))
        end = norms[-1].end
    return Plan(layers, shapes, one, threads, tuple(norms))


def norm_at(begin: int, channels: int, itemsize: int, threads: int) -> Norm:
    """The place of a batch norm from `begin` on."""
    vector = channels * itemsize
    table = begin + 2 * vector
    sums = sums_behind(table, channels, itemsize)
    return Norm(channels, begin, begin + vector, table, sums, sums.address + threads * sums.nbytes)


class Rows:
    """Rows of a program that is being written."""

    def __init__(self, one: Any) -> None:
        self._one = one
        self.names: list[str] = []
        self.fills: dict[str, Size] = {}
        self.nbytes = 0
        self._others: list[Sequence[Number]] = []
        self._instructions: list[Sequence[Number]] = []
        self._kept: list[Any] = []

    def at(self, name: str, offset: int = 0, less: str | None = None) -> Address:
        """The address of an array, or its byte offset from another one."""
        return Address(self._base(name), offset, ZERO if less is None else self._base(less))

    def _base(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return GIVEN + self.names.index(name)

    def filled(self, name: str, size: Size) -> str:
        """Note that an array of this size is filled."""
        self.fills[name] = size
        return name

    def other(self, numbers: Sequence[Number]) -> Address:
        """Add a row, of which this is the address."""
        self._others.append(numbers)
        return row(len(self._others) - 1)

    def add(self, instruction: Sequence[Number], plan: Any) -> None:
        """plan: what has the memory that the instruction refers to."""
        self._instructions.append(instruction)
        self._kept.append(plan)

    def add_product(
        self, direction: str, shape: Shape, threads: int, arrays: Sequence[Address], then: Number = epilogue.NONE
    ) -> None:
        """arrays: source, weights and target of what computes it."""
        for computation in on_cpu.computations(direction, shape, self._one.dtype.type, threads):
            self.nbytes = max(self.nbytes, computation.nbytes)
            self.add(computation.instruction(*arrays, self.at("memory"), then), computation)

    def named(self, result: str | None) -> Named:
        program = Program(self._one, self._others, self._instructions, self._kept)
        return Named(program, tuple(self.names), self.fills, result, self.nbytes)
