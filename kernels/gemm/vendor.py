"""The matrix product by torch, hence MKL, oneDNN or cuBLAS: forward and backward as training calls them."""

from functools import partial

import torch
from torch import Tensor

from ..providers import Prepared, Unavailable
from ..spec import DTYPES, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors, dtype_of
from ..tensors import operands, prepared, result_of
from . import Shape

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """torch.mm or, for bytes, torch._int_mm, with the factors in a layer's layout. See `Prepared`.

    Unavailable where torch multiplies no bytes of this shape, and for types that a processor has no instructions for:
    on a CPU torch adds them up in ways of its own. On a GPU bytes may want the second factor by columns, so they get
    both.
    """
    dtype, kinds = dtype_of(data), DTYPES[dtype_of(data)]
    if kinds.held is not Tensors and not device.startswith("cuda"):
        raise Unavailable(f"{dtype} products by torch on a {device}; they are computed on GPUs")
    x, w, g = operands(data, kinds, device)
    a, b = {FORWARD: (x, w.t()), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (g.t(), x)}[direction]
    c = result_of(shape.result(direction), kinds, device)
    if dtype == "int8":
        return _int8_variants(a, {"": b, **({"second by columns": b.t().contiguous().t()} if a.is_cuda else {})}, c)
    return [prepared(partial(_multiply, dtype == "tf32", a, b, c), c)]


def _multiply(tf32: bool, a: Tensor, b: Tensor, out: Tensor) -> None:
    """torch.mm for fp32 tensors with or without TF32, whatever the process has set."""
    before = torch.backends.cuda.matmul.allow_tf32
    if before == tf32:
        torch.mm(a, b, out=out)
        return
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        torch.mm(a, b, out=out)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _int8_variants(a: Tensor, second_operands: dict[str, Tensor], c: Tensor) -> list[Prepared]:
    """The variants that torch supports; each is tried once."""
    found, why = [], ""
    for variant, b in second_operands.items():
        own = c.clone()
        way = prepared(partial(torch._int_mm, a, b, out=own), own, variant)
        try:
            way.call()
        except RuntimeError as error:
            why = f"torch._int_mm: {str(error).splitlines()[0]}"
        else:
            found.append(way)
    if not found:
        raise Unavailable(why)
    return found
