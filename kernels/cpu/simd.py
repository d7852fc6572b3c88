"""The vector registers of this machine, and the few LLVM instructions on them that the kernels are written in.

Numba compiles loops over scalars well; loops over vectors it has to be told, instruction by instruction. Addresses are
integers, offsets are bytes: so a kernel is compiled once for all shapes and strides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

instruction: Any = intrinsic  # what loops in Numba call to have instructions written; its own types know no call
LINE = 64  # bytes of a line of the cache
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
SCALARS = {"int8": (I8, 1), "int32": (I32, 4), "int64": (I64, 8)}
SCALARS |= {"float32": (ir.FloatType(), 4), "float64": (ir.DoubleType(), 8)}
Value = Any  # ir.Value
Vectors = list[list[Value]]


@dataclass(frozen=True)
class Registers:
    """Vector registers of a processor: how many, of how many bytes, and whether they multiply bytes (VNNI)."""

    count: int
    nbytes: int
    multiplies_bytes: bool = False


def registers(features: str) -> Registers:
    """Of a processor with LLVM's features, as in "+avx2,-avx512f"; of one that is unknown what LLVM makes up for."""
    has = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    if "avx512f" in has:
        return Registers(32, 64, "avx512vnni" in has)
    if {"avx2", "fma"} <= has:
        return Registers(16, 32)
    return Registers(32 if "neon" in has else 16, 16)


binding.initialize_native_asmparser()  # for an instruction that is written as such
OWN = registers(get_host_cpu_features())
VECTORS = 2  # of a tile's row
ROWS = (OWN.count - VECTORS - 1) // VECTORS  # of a tile: as many sums as there are registers left for


def lanes(itemsize: int) -> int:
    """Numbers of that many bytes in a register."""
    return OWN.nbytes // itemsize


class Code:
    """Writes instructions on vectors of one type at the builder's place."""

    def __init__(self, builder: ir.IRBuilder, kind: types.Type) -> None:
        self.builder = builder
        self.scalar, self.itemsize = SCALARS[str(kind)]
        self.lanes = lanes(self.itemsize)
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.zero = ir.Constant(self.vector, [0] * self.lanes)

    def pointer(self, address: Value) -> Value:
        """To bytes, from an integer."""
        return self.builder.inttoptr(address, I8.as_pointer())

    def at(self, pointer: Value, offset: Value | int, kind: ir.Type) -> Value:
        """A pointer to `kind`, so many bytes on."""
        place = self.builder.gep(pointer, [I64(offset) if isinstance(offset, int) else offset])
        return self.builder.bitcast(place, kind.as_pointer())

    def load(self, pointer: Value, offset: Value | int) -> Value:
        """A vector; its place may be any multiple of a number's size."""
        loaded = self.builder.load(self.at(pointer, offset, self.vector))
        loaded.align = self.itemsize
        return loaded

    def store(self, value: Value, pointer: Value, offset: Value | int) -> None:
        """The counterpart of `load`."""
        self.builder.store(value, self.at(pointer, offset, self.vector)).align = self.itemsize

    def fetch(self, pointer: Value, offset: int) -> None:
        """Have a line brought into the first cache, to be written."""
        self._prefetch(self.at(pointer, offset, I8), 1, 3)

    def expect(self, pointer: Value, lines: int) -> None:
        """Have lines brought into the second cache, to be read."""
        for line in range(lines):
            self._prefetch(self.at(pointer, line * LINE, I8), 0, 2)

    def _prefetch(self, place: Value, write: int, locality: int) -> None:
        signature = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = cgutils.get_or_insert_function(self.builder.module, signature, "llvm.prefetch.p0")
        self.builder.call(function, [place, I32(write), I32(locality), I32(1)])

    def numbers(self, pointer: Value, count: int) -> list[Value]:
        """Addresses, or other whole numbers of 8 bytes, side by side."""
        return [self.builder.load(self.at(pointer, 8 * place, I64)) for place in range(count)]

    def broadcast(self, pointer: Value, offset: Value | int) -> Value:
        """One number of memory in all lanes."""
        return self.spread(self.builder.load(self.at(pointer, offset, self.scalar)))

    def spread(self, number: Value) -> Value:
        """A number in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, I32(0))
        return self.shuffle(first, nothing, [0] * self.lanes)

    def shuffle(self, a: Value, b: Value, places: Sequence[int]) -> Value:
        """A vector of lanes of a, and from `lanes` on of b."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), list(places)))

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once where the processor can; of whole numbers the sums of products of their bytes."""
        if self.scalar == I32:
            return self._multiply_bytes(a, b, c)
        kind = f"v{self.lanes}f{8 * self.itemsize}"
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.fmuladd.{kind}")
        return self.builder.call(function, [a, b, c])

    def _multiply_bytes(self, a: Value, b: Value, c: Value) -> Value:
        """Four neighbouring bytes a lane: unsigned ones of a with signed ones of b."""
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        dot = ir.InlineAsm(signature, "vpdpbusd $2, $1, $0", "=v,v,v,0")  # LLVM's own name for it changes its types
        return self.builder.call(dot, [a, b, c])

    def scaled(self, vector: Value, factor: Value, old: Value) -> Value:
        """What a tile ends with: factor * vector + old; of whole numbers vector + old."""
        if self.scalar == I32:
            return self.builder.add(vector, old)
        return self.multiply_add(vector, factor, old)

    def repeat(
        self, start: Value, stop: Value, step: int, sums: Vectors, body: Callable[[Value, Vectors], Vectors]
    ) -> tuple[Value, Vectors]:
        """`body` for start, start + step, ... as long as a whole step fits; where it ended, and the sums after it.

        The sums go from one turn into the next in registers, which a loop in Numba cannot promise.
        """
        builder, before = self.builder, self.builder.block
        head, turn, after = (builder.append_basic_block(name) for name in ("head", "turn", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(I64)
        carried = [[builder.phi(self.vector) for _ in row] for row in sums]
        following = builder.add(index, I64(step))
        builder.cbranch(builder.icmp_signed("<=", following, stop), turn, after)
        builder.position_at_end(turn)
        changed = body(index, carried)
        _join(index, start, before, following, builder.block)
        for phis, olds, news in zip(carried, sums, changed, strict=True):
            for phi, old, new in zip(phis, olds, news, strict=True):
                _join(phi, old, before, new, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return index, carried


def _join(phi: Any, first: Value, before: Any, later: Value, turn: Any) -> None:
    phi.add_incoming(first, before)
    phi.add_incoming(later, turn)
