"""Matrix products by kernels/gemm/cuda/gemm.cu, run on the host; the result and all memory around it are checked."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_on_host
import numpy as np

from hpcai.kernels.arithmetic import UNIT_ROUNDOFF_FP32
from hpcai.kernels.arrays import rounded
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.cuda.tiling import BY_COLUMNS, BY_ROWS, KINDS, MMA, SIMT, WGMMA, Operand, Result, Tile
from hpcai.kernels.gemm.cuda.launches import launches, workspace_bytes
from hpcai.kernels.spec import DTYPES, fp32_tolerance

GUARD, POISON = 4096, 0xFF  # bytes before and behind; NaN in every floating-point type, -1 in integers
ROWS, COLUMNS = BY_ROWS, BY_COLUMNS
LAYOUTS = [(ROWS, ROWS), (ROWS, COLUMNS), (COLUMNS, ROWS), (COLUMNS, COLUMNS)]
STORED = {"int32": np.int32, "float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": np.uint16}
LANES = Tile(SIMT, 64, 64, 3)
WARPS, WIDE_WARPS = Tile(MMA, 64, 64, 3), Tile(MMA, 64, 128, 3)
SHARING, PAIRED = Tile(WGMMA, 128, 64, 3), Tile(WGMMA, 128, 64, 3, cluster=2)
PING_PONG = Tile(WGMMA, 64, 64, 3, ping_pong=True)


class Guarded:
    """Lines of numbers that begin at multiples of `unit` bytes, and of no more; the memory around them is poisoned."""

    def __init__(self, numbers: Any, unit: int = 16) -> None:
        (lines, columns), step = numbers.shape, max(1, unit // numbers.itemsize)
        self.pitch = (columns // step + 1) * step
        nbytes = lines * self.pitch * numbers.itemsize
        self.memory = np.full(2 * GUARD + nbytes + 64, POISON, np.uint8)
        first = GUARD - self.memory.ctypes.data % 64 + max(unit, numbers.itemsize)
        whole = self.memory[first : first + nbytes].view(numbers.dtype).reshape(lines, self.pitch)
        self.numbers = whole[:, :columns]
        self.numbers[...] = numbers
        self.before = self.memory.copy()

    @property
    def address(self) -> int:
        return int(self.numbers.ctypes.data)

    @property
    def bounds(self) -> tuple[int, int]:
        """Addresses of the first element and behind the last one."""
        return self.address, int(self.numbers[-1:, -1:].ctypes.data) + self.numbers.itemsize

    def check_surroundings(self, what: str) -> None:
        """Only the numbers themselves have changed."""
        own = self.numbers.copy()
        self.numbers[...] = 0
        written, self.memory[:] = self.memory.copy(), self.before
        self.numbers[...] = 0
        changed = np.flatnonzero(written != self.memory)
        self.numbers[...] = own
        assert not changed.size, f"{what}: {changed.size} bytes outside are written, the first {changed[0] - GUARD}"


def poisoned(lines: int, columns: int, kind: Any) -> Any:
    """Numbers whose bytes are all POISON."""
    whole = np.full((lines, columns * np.dtype(kind).itemsize), POISON, np.uint8)
    return whole.view(kind) if whole.size else np.empty((lines, columns), kind)


def no_number(numbers: Any) -> Any:
    """NaN in the array's type; for 16-bit types that NumPy lacks, the bits of a NaN."""
    return 0x7FC0 if numbers.dtype == np.uint16 else np.nan


def values_of(numbers: Any, dtype: str) -> Any:
    """Stored numbers in float64."""
    if dtype != "bfloat16":
        return numbers.astype(np.float64)
    return (numbers.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def drawn(generator: np.random.Generator, size: tuple[int, int], type: str) -> Any:
    """Random numbers as a type stores them."""
    if type == "int8":
        return generator.integers(-128, 128, size, np.int8)
    if type == "fp64":
        return generator.standard_normal(size)
    values = rounded(generator.standard_normal(size, np.float32), DTYPES[type].arithmetic)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if type == "bf16" else values.astype(DTYPES[type].operand)


def error_ratio(found: Any, exact: Any, allowed: Any, exactly: bool) -> float:
    """The largest error relative to its limit; or the number of wrong elements."""
    if exactly:
        return float(np.count_nonzero(found != exact))
    same = (found == exact) | (np.isnan(found) & np.isnan(exact))
    ratio = np.divide(np.abs(found - exact), allowed, out=np.full(exact.shape, math.inf), where=allowed > 0)
    return float(np.where(same, 0.0, np.where(np.isnan(ratio), math.inf, ratio)).max(initial=0.0))


@dataclass(frozen=True)
class Case:
    """A product, the layouts of its operands, and the epilogue of its sums: names of further operands, factor and ReLU.

    Lines begin at multiples of `unit` bytes. `broken` names a matrix with one element that is NaN.
    """

    type: str
    tile: Tile
    rows: int
    columns: int
    steps: int
    layouts: tuple[int, int] = (ROWS, ROWS)
    unit: int = 16
    given: tuple[str, ...] = ()
    factor: float = 1.0
    relu: bool = False
    processors: int = 4
    broken: str = ""


class Product:
    """The memory of a case, and its launches."""

    def __init__(self, case: Case) -> None:
        self.case, self.kind, generator = case, KINDS[case.type], np.random.default_rng(3)
        self.a, self.b = (drawn(generator, (rows, case.steps), case.type) for rows in (case.rows, case.columns))
        if case.broken == "A":
            self.a[7, 0] = no_number(self.a)
        self.stored = [self._lay(a, way) for a, way in zip((self.a, self.b), case.layouts, strict=True)]
        self.further = {name: self._further(generator, name) for name in case.given}
        self.result = Guarded(poisoned(case.rows, case.columns, STORED[self.kind.result]), case.unit)
        self.operands = [self._operand(*pair) for pair in zip(self.stored, case.layouts, strict=True)]
        nbytes = workspace_bytes(case.type, *self.operands, case.tile)
        self.workspace = Guarded(poisoned(1, nbytes, np.uint8))

    def _lay(self, numbers: Any, layout: int) -> Guarded:
        return Guarded(numbers if layout == ROWS else numbers.T, self.case.unit)

    def _operand(self, stored: Guarded, layout: int) -> Operand:
        lines, columns = stored.numbers.shape
        return Operand(stored.address, stored.pitch, lines, columns, layout)

    def _further(self, generator: np.random.Generator, name: str) -> Guarded:
        if name == "added":
            numbers = drawn(generator, (self.case.rows, self.case.columns), self.case.type)
            if self.case.broken == name:
                numbers[7, 9] = no_number(numbers)
            return Guarded(numbers, self.case.unit)
        return Guarded(generator.standard_normal((1, self.case.columns), np.float32))

    @property
    def launches(self) -> list[Launch]:
        case, addresses = self.case, {name: each.address for name, each in self.further.items()}
        result = Result(self.result.address, self.result.pitch, **addresses, factor=case.factor, relu=case.relu)
        place = self.workspace.address
        return launches(case.type, *self.operands, result, case.tile, case.processors, place, cuda_on_host.encoded)

    @property
    def readable(self) -> list[tuple[int, int]]:
        """From the first to the last element of each operand; and the workspace for transposed operands."""
        return [each.bounds for each in (*self.stored, self.workspace) if each.numbers.size]

    def run(self, schedule: str, changed: str = "", source: Path = Path()) -> None:
        """Compute it under a schedule, the kernel `changed` by another source; AssertionError if it is wrong."""
        self.result.memory[:] = self.result.before
        self.workspace.memory[:] = self.workspace.before
        for launch in self.launches:
            place = source if launch.program.name == changed else launch.program.path
            cuda_on_host.run(launch, schedule, cuda_on_host.built(launch.program, place), self.readable)
        for name, each in {"A": self.stored[0], "B": self.stored[1], **self.further}.items():
            assert np.array_equal(each.memory, each.before), f"{name} has changed"
        self.result.check_surroundings("the result")
        self.workspace.check_surroundings("the workspace")
        assert self.error() <= 1, f"{self.case}, {schedule}: {self.error()} times the limit"

    def error(self) -> float:
        """The largest error relative to its limit; of integers the number of wrong elements."""
        found = values_of(self.result.numbers, self.kind.result)
        return error_ratio(found, *self.expected(), exactly=self.case.type == "int8")

    def expected(self) -> tuple[Any, Any]:
        """In float64, and the limit of each element: by verify.py, and the rounding of the epilogue."""
        case, unit = self.case, DTYPES[self.case.type].unit
        left, right = (values_of(each, self.kind.operand) for each in (self.a, self.b))
        further = {name: values_of(each.numbers, self._type_of(name)) for name, each in self.further.items()}
        times = case.factor * further.get("scale", 1.0)
        terms = [times * (left @ right.T), further.get("bias", 0.0), further.get("added", 0.0)]
        total = sum(terms)
        root = np.abs(times) * np.sqrt(np.square(left) @ np.square(right).T)
        allowed = fp32_tolerance(case.steps) / UNIT_ROUNDOFF_FP32 * unit * root
        allowed = allowed + 3 * unit * sum(np.abs(term) for term in terms)
        stored = DTYPES[case.type].arithmetic
        if stored.roundoff:
            allowed = allowed + 2 * stored.roundoff * np.maximum(np.abs(total), stored.normal)
        return np.where(total < 0, 0.0, total) if case.relu else total, allowed

    def _type_of(self, name: str) -> str:
        return self.kind.result if name == "added" else "float32"
