"""Vector registers of the host processor, and the LLVM instructions on them that the kernels are written in.

Numba compiles scalar loops well; vector loops are emitted here instruction by instruction. Addresses are integers and
offsets are bytes, so that one compilation serves all shapes and strides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

instruction: Any = intrinsic  # decorator of functions that emit instructions; Numba has no type for it
LINE = 64  # bytes of a cache line
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
SCALARS = {"int8": (I8, 1), "int16": (ir.IntType(16), 2), "int32": (I32, 4), "int64": (I64, 8)}
SCALARS |= {"float32": (ir.FloatType(), 4), "float64": (ir.DoubleType(), 8)}
Value = Any  # ir.Value
Vectors = list[list[Value]]


@dataclass(frozen=True)
class Registers:
    """Vector registers of a processor: number, bytes, and whether it has int8 dot products (AVX-512 VNNI)."""

    count: int
    nbytes: int
    multiplies_bytes: bool = False


def registers(features: str) -> Registers:
    """Registers for a string of LLVM features such as "+avx2,-avx512f"; for unknown processors, those LLVM emulates."""
    has = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    if "avx512f" in has:
        return Registers(32, 64, "avx512vnni" in has)
    if {"avx2", "fma"} <= has:
        return Registers(16, 32)
    return Registers(32 if "neon" in has else 16, 16)


binding.initialize_native_asmparser()  # for inline assembly
HOST = registers(get_host_cpu_features())
VECTORS = 2  # vectors of a row of a micro-kernel tile
ROWS = (HOST.count - VECTORS - 1) // VECTORS  # rows of a tile: sums fill the registers that A and B leave


def lanes(itemsize: int) -> int:
    """Numbers of `itemsize` bytes in a register."""
    return HOST.nbytes // itemsize


class Code:
    """Emits instructions on vectors of one type at the position of the builder."""

    def __init__(self, builder: ir.IRBuilder, kind: types.Type) -> None:
        self.builder = builder
        self.scalar, self.itemsize = SCALARS[str(kind)]
        self.lanes = lanes(self.itemsize)
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.zero = ir.Constant(self.vector, [0] * self.lanes)

    def pointer(self, address: Value) -> Value:
        """Byte pointer from an integer address."""
        return self.builder.inttoptr(address, I8.as_pointer())

    def at(self, pointer: Value, offset: Value | int, kind: ir.Type) -> Value:
        """Pointer to `kind` at a byte offset."""
        place = self.builder.gep(pointer, [I64(offset) if isinstance(offset, int) else offset])
        return self.builder.bitcast(place, kind.as_pointer())

    def load(self, pointer: Value, offset: Value | int) -> Value:
        """Load a vector from any multiple of the size of a number."""
        loaded = self.builder.load(self.at(pointer, offset, self.vector))
        loaded.align = self.itemsize
        return loaded

    def store(self, value: Value, pointer: Value, offset: Value | int) -> None:
        """Store a vector to any multiple of the size of a number."""
        self.builder.store(value, self.at(pointer, offset, self.vector)).align = self.itemsize

    def prefetch_write(self, pointer: Value, offset: int) -> None:
        """Prefetch a line into L1 for writing."""
        self._prefetch(self.at(pointer, offset, I8), 1, 3)

    def prefetch_read(self, pointer: Value, lines: int) -> None:
        """Prefetch lines into L2 for reading."""
        for line in range(lines):
            self._prefetch(self.at(pointer, line * LINE, I8), 0, 2)

    def _prefetch(self, place: Value, write: int, locality: int) -> None:
        signature = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        function = cgutils.get_or_insert_function(self.builder.module, signature, "llvm.prefetch.p0")
        self.builder.call(function, [place, I32(write), I32(locality), I32(1)])

    def load_int64s(self, pointer: Value, count: int) -> list[Value]:
        """Load contiguous 64-bit integers, such as addresses."""
        return [self.builder.load(self.at(pointer, 8 * place, I64)) for place in range(count)]

    def broadcast(self, pointer: Value, offset: Value | int) -> Value:
        """Load one number into all lanes."""
        return self.splat(self.builder.load(self.at(pointer, offset, self.scalar)))

    def splat(self, number: Value) -> Value:
        """Copy a number into all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, I32(0))
        return self.shuffle(first, nothing, [0] * self.lanes)

    def shuffle(self, a: Value, b: Value, places: Sequence[int]) -> Value:
        """A vector of lanes of a, and from index `lanes` on of b."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(places)), list(places)))

    def multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, fused where the processor can; for int32, c plus the dot products of four bytes a lane."""
        if self.scalar == I32:
            return self._multiply_bytes(a, b, c)
        kind = f"v{self.lanes}f{8 * self.itemsize}"
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.fmuladd.{kind}")
        return self.builder.call(function, [a, b, c])

    def _multiply_bytes(self, a: Value, b: Value, c: Value) -> Value:
        """Dot products of four bytes a lane, unsigned bytes of a and signed bytes of b."""
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        dot = ir.InlineAsm(signature, "vpdpbusd $2, $1, $0", "=v,v,v,0")  # LLVM changes the types of its intrinsic
        return self.builder.call(dot, [a, b, c])

    def scaled(self, vector: Value, factor: Value, old: Value) -> Value:
        """Final value of a tile: factor * vector + old; for int32, vector + old."""
        if self.scalar == I32:
            return self.builder.add(vector, old)
        return self.multiply_add(vector, factor, old)

    def switch(self, chosen: Value, cases: Mapping[int, Callable[[], None]]) -> None:
        """Emit one of the cases, by number; none for another number. Numba itself has no table of instructions."""
        after = self.builder.append_basic_block("after")
        switch = self.builder.switch(chosen, after)
        for number, emit in cases.items():
            block = self.builder.append_basic_block("case")
            switch.add_case(I64(number), block)
            self.builder.position_at_end(block)
            emit()
            self.builder.branch(after)
        self.builder.position_at_end(after)

    def loop(
        self, start: Value, stop: Value, step: int, sums: Vectors, body: Callable[[Value, Vectors], Vectors]
    ) -> tuple[Value, Vectors]:
        """Emit a loop over `body` for start, start + step, ... while a whole step fits; returns the end index and the
        sums.

        The sums stay in registers between iterations, which a loop in Numba does not guarantee.
        """
        builder, before = self.builder, self.builder.block
        head, body_block, after = (builder.append_basic_block(name) for name in ("head", "turn", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(I64)
        carried = [[builder.phi(self.vector) for _ in row] for row in sums]
        following = builder.add(index, I64(step))
        builder.cbranch(builder.icmp_signed("<=", following, stop), body_block, after)
        builder.position_at_end(body_block)
        changed = body(index, carried)
        _add_incoming(index, start, before, following, builder.block)
        for phis, olds, news in zip(carried, sums, changed, strict=True):
            for phi, old, new in zip(phis, olds, news, strict=True):
                _add_incoming(phi, old, before, new, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return index, carried


def _add_incoming(phi: Any, first: Value, before: Any, later: Value, body_block: Any) -> None:
    phi.add_incoming(first, before)
    phi.add_incoming(later, body_block)
