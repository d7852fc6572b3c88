"""Causal attention by torch: its fused kernel, forward and backward."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..providers import Call, Prepared
from ..spec import DTYPES, FORWARD, Tensors, dtype_of
from ..tensors import converted, result_of
from ..tensors import prepared as as_prepared
from . import Shape

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant. See `Prepared`. Results are copied into the result's memory, since torch allocates its own.

    A backward pass is given a forward pass, which is kept and not timed.
    """
    kinds = DTYPES[dtype_of(data)]
    result, convert = result_of(shape.result(direction), kinds, device), converted(kinds, device)

    def bind(data: Tensors) -> Call:
        q, k, v = convert(data.x)
        if direction == FORWARD:
            return lambda: _forward(q, k, v, result)
        queries, keys, values = (each.detach().requires_grad_() for each in (q, k, v))
        with torch.enable_grad():
            out = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return lambda: _backward(out, (queries, keys, values), convert(data.g), result)

    return [as_prepared(bind, data, result)]


def _forward(q: Tensor, k: Tensor, v: Tensor, result: Tensor) -> None:
    with torch.no_grad():
        result.copy_(functional.scaled_dot_product_attention(q, k, v, is_causal=True))


def _backward(out: Tensor, operands: Any, g: Tensor, result: Tensor) -> None:
    torch.stack(torch.autograd.grad(out, operands, g, retain_graph=True), out=result)
