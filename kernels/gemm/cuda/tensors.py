"""Operands of a product from addresses, sizes and strides of torch tensors; no device needed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ...cuda.tiling import BY_COLUMNS, BY_ROWS, KINDS, WGMMA, Operand
from .launches import ALIGNMENT, k_major_copy, needs_transpose

if TYPE_CHECKING:
    import torch

Size = tuple[int, ...]

LARGEST = 2**31 - 2**10  # largest number of rows, columns and steps: 32-bit indices up to the end of the last tile
FURTHEST = 2**40  # largest line pitch of tensor maps in bytes


class TensorLayout(NamedTuple):
    """Address, type name, sizes, strides in elements, and GPU of a tensor."""

    address: int
    dtype: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    device: int = 0

    @property
    def transposed(self) -> TensorLayout:
        """Layout of the transposed matrix."""
        return self._replace(size=self.size[::-1], strides=self.strides[::-1])


def layout_of(tensor: torch.Tensor) -> TensorLayout:
    """Layout of a tensor; GPU -1 on a host."""
    return TensorLayout(
        tensor.data_ptr(), _name(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.get_device()
    )


@cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class ProductTensors(NamedTuple):
    """Tensors of a product C = scale * A B + bias + added."""

    a: TensorLayout
    b: TensorLayout
    c: TensorLayout
    bias: TensorLayout | None = None
    scale: TensorLayout | None = None
    added: TensorLayout | None = None


def check(type: str, given: ProductTensors, changed: bool = False) -> None:
    """Raise ValueError if tensors do not fit a product of that type; `changed`: the epilogue has a factor or a ReLU."""
    if type not in KINDS:
        raise ValueError(f"gemm in {type}; allowed: {', '.join(KINDS)}")
    kind, matrices = KINDS[type], [each for each in (*given[:3], given.added) if each]
    dtypes, wanted = [each.dtype for each in matrices], [kind.operand, kind.operand, kind.result, kind.result]
    if dtypes != wanted[: len(dtypes)]:
        raise ValueError(f"gemm in {type} of {', '.join(dtypes)}; allowed: {', '.join(wanted[: len(dtypes)])}")
    _check_sizes(given.a.size, given.b.size, given.c.size, [each and each.size for each in given[3:]])
    if type == "int8" and (changed or any(given[3:])):
        raise ValueError("gemm in int8 with bias, scale, factor, ReLU or something added; allowed: the bare sums")
    if len({each.device for each in given if each}) > 1 or given.c.device < 0:
        raise ValueError("gemm of tensors that are not all of the same GPU")


def _check_sizes(a: Size, b: Size, c: Size, further: list[Size | None]) -> None:
    (m, k), n = (*a, 0, 0)[:2], (*b, 0, 0)[1]
    known = all(size in (None, right) for size, right in zip(further, [(n,), (n,), (m, n)], strict=True))
    if (a, b, c) != ((m, k), (k, n), (m, n)) or not known:
        raise ValueError(
            f"gemm of {a} and {b} to {c} with bias, scale and added of {further}; allowed: (m, k) and (k, n) to (m, n) "
            "with (n,), (n,) and (m, n)"
        )
    if max(m, k, n) > LARGEST:
        raise ValueError(f"gemm of {a} and {b}; at most {LARGEST} rows, columns and steps")


def operand(at: TensorLayout, itemsize: int) -> Operand | None:
    """Layout of a matrix of rows and steps; None if neither rows nor steps are contiguous.

    If both are, the layout with larger aligned pieces.
    """
    (rows, steps), (row, step) = at.size, at.strides
    candidates = []
    if step == 1 or steps <= 1:
        candidates.append(Operand(at.address, _pitch(rows, row, steps, itemsize), rows, steps, BY_ROWS))
    if row == 1 or rows <= 1:
        candidates.append(Operand(at.address, _pitch(steps, step, rows, itemsize), steps, rows, BY_COLUMNS))
    return max(candidates, key=lambda candidate: candidate.piece(itemsize), default=None)


def _pitch(lines: int, stride: int, columns: int, itemsize: int) -> int:
    """Elements from line to line; for a single line, the value with the best alignment."""
    unit = max(1, ALIGNMENT // itemsize)
    return stride if lines > 1 else -(-columns // unit) * unit


def tma_can_read(type: str, operand: Operand) -> bool:
    """Whether TMA can read an operand, or its transposed copy: not empty, lines at multiples of 16 bytes."""
    kind = KINDS[type]
    read = k_major_copy(kind, operand) if needs_transpose(kind, WGMMA, operand) else operand
    pitch = read.pitch * kind.operand_bytes
    aligned = read.address % ALIGNMENT == 0 and pitch % ALIGNMENT == 0 and 0 < pitch < FURTHEST
    return aligned and read.lines > 0 and read.columns > 0


def row_pitch(at: TensorLayout, itemsize: int) -> int | None:
    """Elements between rows of a result; None if rows are not contiguous or overlap."""
    (rows, columns), (row, column) = at.size, at.strides
    pitch = _pitch(rows, row, columns, itemsize)
    return pitch if (column == 1 or columns <= 1) and pitch >= columns else None


def is_contiguous(vector: TensorLayout) -> bool:
    """Whether the elements of a vector are contiguous."""
    return vector.strides == (1,) or vector.size == (1,)
