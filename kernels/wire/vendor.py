"""Packing of gradients by torch's operators, on any device and without waiting for it."""

import torch

from . import HIGHEST, LEAST, SCALE_BYTES

Tensor = torch.Tensor


def add(values: Tensor, carried: Tensor) -> Tensor:
    """Add what the step before left, in place; float32[1], the largest magnitude, infinite where one is NaN."""
    return largest(values.add_(carried))


def largest(values: Tensor) -> Tensor:
    """float32[1]: the largest magnitude, infinite where a number is NaN."""
    low, high = values.aminmax()
    return torch.maximum(-low, high).nan_to_num_(nan=torch.inf, posinf=torch.inf).reshape(1)


def scale_of(peak: Tensor) -> Tensor:
    """float32[1]: the scale of a vector with this largest magnitude."""
    mantissa, exponent = torch.frexp(peak / HIGHEST)
    scale = torch.ldexp(torch.ones_like(peak), exponent - (mantissa == 0.5).int())
    return torch.where(peak.isfinite(), torch.where(peak < LEAST, 0.0, scale), peak)


def quantise(values: Tensor, scale: Tensor, q: Tensor, left: Tensor, add: bool = False) -> None:
    """Fill int8 q, with zeros at its end where it is longer, and what rounding leaves; or add the latter to `left`.

    `left` stays as it is where the scale is not finite.
    """
    whole = values.mul(torch.where(scale.isfinite() & (scale > 0), 1 / scale, 0.0)).round_()
    q[: len(values)].copy_(whole)
    q[len(values) :].zero_()
    rest = values - whole * scale
    torch.where(scale.isfinite(), rest + left if add else rest, left, out=left)


def sum_rows(rows: Tensor, out: Tensor) -> None:
    """The sum of 16-bit rows in fp32, in their order."""
    out.copy_(rows[0])
    for row in rows[1:]:
        out.add_(row)


def sum_bytes(rows: Tensor, scale: Tensor, out: Tensor) -> None:
    """The sum of int8 rows in int32, times the scale."""
    torch.mul(rows.sum(0, dtype=torch.int32), scale, out=out)


def dequantise(packets: Tensor, out: Tensor) -> None:
    """The numbers of int8 packets in their order, each with its scale in front; `out` may end before they do."""
    scales = packets[:, :SCALE_BYTES].contiguous().view(torch.float32)
    out.copy_((packets[:, SCALE_BYTES:] * scales).flatten()[: len(out)])
