"""Packing of gradients on CPUs in Numba: each function reads its vectors once. On one thread, without the lock."""

from typing import Any

import numpy as np
import torch

from ..cpu.compiled import compiled
from . import HIGHEST, LEAST, SCALE_BYTES
from .vendor import sum_rows

__all__ = ["add", "dequantise", "largest", "quantise", "scale_of", "sum_bytes", "sum_rows"]

Tensor = torch.Tensor
BLOCK = 4096  # numbers summed at a time: their sums stay in the first cache


def add(values: Tensor, carried: Tensor) -> Tensor:
    """Add what the step before left, in place; float32[1], the largest magnitude, infinite where one is NaN."""
    return torch.tensor([_added(values.numpy(), carried.numpy())])


def largest(values: Tensor) -> Tensor:
    """float32[1]: the largest magnitude, infinite where a number is NaN."""
    return torch.tensor([_largest(values.numpy())])


def scale_of(peak: Tensor) -> Tensor:
    """float32[1]: the scale of a vector with this largest magnitude."""
    largest = np.float32(peak.item())
    if not np.isfinite(largest):
        return torch.tensor([torch.inf])
    mantissa, exponent = np.frexp(largest / np.float32(HIGHEST))
    return torch.tensor([0.0 if largest < LEAST else float(np.ldexp(1.0, int(exponent) - (mantissa == 0.5)))])


def quantise(values: Tensor, scale: Tensor, q: Tensor, left: Tensor, add: bool = False) -> None:
    """Fill int8 q, with zeros at its end where it is longer, and what rounding leaves; or add the latter to `left`.

    `left` stays as it is where the scale is not finite.
    """
    number = scale.item()
    if np.isfinite(number):
        factor, kept = np.float32(1 / number if number else 0), np.float32(1 if add else 0)
        _quantise(values.numpy(), np.float32(number), factor, q.numpy(), left.numpy(), kept)
        q[len(values) :].zero_()
    else:
        q.zero_()


def sum_bytes(rows: Tensor, scale: Tensor, out: Tensor) -> None:
    """The sum of int8 rows in int32, times the scale."""
    _sum_bytes(rows.numpy(), np.float32(scale.item()), out.numpy())


def dequantise(packets: Tensor, out: Tensor) -> None:
    """The numbers of int8 packets in their order, each with its scale in front; `out` may end before they do."""
    scales = packets[:, :SCALE_BYTES].contiguous().view(torch.float32).flatten()
    _dequantise(packets.numpy(), scales.numpy(), out.numpy())


@compiled
def _magnitude(value: Any) -> Any:
    return np.float32(np.inf) if np.isnan(value) else np.abs(value)


@compiled
def _added(values: Any, carried: Any) -> Any:
    for place in range(len(values)):
        values[place] += carried[place]
    return _largest(values)


@compiled
def _largest(values: Any) -> Any:
    """Bits of magnitudes are ordered like the magnitudes, with NaN above all."""
    peak = np.int32(0)
    bits = values.view(np.int32)
    for place in range(len(values)):
        peak = max(peak, np.int32(bits[place] & np.int32(0x7FFFFFFF)))
    return _of_bits(peak)


@compiled
def _of_bits(bits: Any) -> Any:
    return _magnitude(np.int32(bits).view(np.float32))


@compiled
def _quantise(values: Any, scale: Any, factor: Any, q: Any, left: Any, kept: Any) -> None:
    for place in range(len(values)):
        whole = np.rint(values[place] * factor)
        q[place] = np.int8(np.int32(whole))
        left[place] = (values[place] - whole * scale) + kept * left[place]


@compiled
def _sum_bytes(rows: Any, scale: Any, out: Any) -> None:
    sums = np.empty(BLOCK, np.int32)
    for begin in range(0, len(out), BLOCK):
        end = min(begin + BLOCK, len(out))
        here = sums[: end - begin]
        here[:] = 0
        for row in range(rows.shape[0]):
            _add_bytes(here, rows[row, begin:end])
        _scale(out[begin:end], here, scale)


@compiled
def _add_bytes(sums: Any, numbers: Any) -> None:
    for place in range(len(sums)):
        sums[place] += np.int32(numbers[place])


@compiled
def _scale(out: Any, numbers: Any, scale: Any) -> None:
    for place in range(len(out)):
        out[place] = np.float32(np.int32(numbers[place])) * scale


@compiled
def _dequantise(packets: Any, scales: Any, out: Any) -> None:
    count = packets.shape[1] - SCALE_BYTES
    for row in range(packets.shape[0]):
        here = out[row * count : (row + 1) * count]
        _scale(here, packets[row, SCALE_BYTES : SCALE_BYTES + len(here)], scales[row])
