"""The matrix product by torch, hence MKL, oneDNN or cuBLAS: forward and backward as training calls them."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from ..spec import (
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    Float32,
    Prepared,
    Tensors,
    Unavailable,
    poison,
    poisoned,
)
from . import Shape


def run(
    data: Tensors, shape: Shape, device: str, directions: Collection[str], stored: str = "float32"
) -> dict[str, Float32]:
    """y, dx, dw by direction, computed from and to the type `stored`, back on the host in fp32.

    tf32 and other switches are as the caller set them.
    """
    x, w, g = (torch.from_numpy(tensor).to(device, getattr(torch, stored)) for tensor in data)
    x.requires_grad_(INPUT_GRADIENT in directions)
    w.requires_grad_(WEIGHT_GRADIENT in directions)
    with torch.enable_grad():
        y = torch.matmul(x, w.t())
    if y.requires_grad:
        torch.autograd.backward(y, g)
    results = {FORWARD: y, INPUT_GRADIENT: x.grad, WEIGHT_GRADIENT: w.grad}
    wanted = {name: tensor for name, tensor in results.items() if name in directions and tensor is not None}
    return {name: tensor.detach().float().cpu().numpy() for name, tensor in wanted.items()}


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """torch.mm or, of bytes, torch._int_mm, of the factors as a layer has them. See `Prepared`.

    Unavailable where torch multiplies no bytes of this shape. On a GPU these may want the second factor by columns, so
    they get both.
    """
    x, w, g = (torch.from_numpy(tensor).to(device) for tensor in data)
    a, b = {FORWARD: (x, w.t()), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (g.t(), x)}[direction]
    size = shape.result(direction)
    if a.dtype != torch.int8:
        return [_prepared(torch.mm, a, b, poisoned(size, str(a.dtype).removeprefix("torch.")))]
    ways = {"": b, **({"second by columns": b.t().contiguous().t()} if a.is_cuda else {})}
    return _of_bytes(a, ways, size)


def _of_bytes(a: Tensor, ways: dict[str, Tensor], size: tuple[int, ...]) -> list[Prepared]:
    """Those of the ways that torch computes, each tried once."""
    found, why = [], ""
    for variant, b in ways.items():
        way = _prepared(torch._int_mm, a, b, poisoned(size, "int32"))._replace(variant=variant)
        try:
            way.call()
        except RuntimeError as error:
            why = f"torch._int_mm: {str(error).splitlines()[0]}"
        else:
            found.append(way)
    if not found:
        raise Unavailable(why)
    return found


def _prepared(multiply: Callable[..., Any], a: Tensor, b: Tensor, result: Any) -> Prepared:
    c, wrong = torch.from_numpy(result).to(a.device), poison(result.dtype.name)
    return Prepared(lambda: multiply(a, b, out=c), lambda: c.cpu().numpy(), lambda: c.fill_(wrong))
