"""The matrix product by torch, hence MKL, oneDNN or cuBLAS: forward and backward as training calls them."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..arrays import Once
from ..providers import Call, Prepared, Unavailable
from ..spec import DTYPES, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors, dtype_of
from ..tensors import converted, prepared, result_of
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
    convert, c = converted(kinds, device), result_of(shape.result(direction), kinds, device)

    def factors(data: Tensors) -> tuple[Tensor, Tensor]:
        x, w, g = map(convert, data)
        return {FORWARD: (x, w.t()), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (g.t(), x)}[direction]

    if dtype == "int8":
        return _int8_variants(factors, data, c)
    return [prepared(lambda data: partial(_multiply, dtype == "tf32", *factors(data), c), data, c)]


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


def _int8_variants(factors: Callable[[Tensors], tuple[Tensor, Tensor]], data: Tensors, c: Tensor) -> list[Prepared]:
    """The variants that torch supports; each is tried once."""
    found, why = [], ""
    for variant, arrange in {"": _as_it_is, **({"second by columns": _by_columns} if c.is_cuda else {})}.items():
        own, arranged = c.clone(), Once(arrange)

        def bind(data: Tensors, own: Tensor = own, arranged: Once = arranged) -> Call:
            a, b = factors(data)
            return partial(torch._int_mm, a, arranged(b), out=own)

        try:
            way = prepared(bind, data, own, variant)
            way.call()
        except RuntimeError as error:
            why = f"torch._int_mm: {str(error).splitlines()[0]}"
        else:
            found.append(way)
    if not found:
        raise Unavailable(why)
    return found


def _as_it_is(b: Tensor) -> Tensor:
    return b


def _by_columns(b: Tensor) -> Tensor:
    return b.t().contiguous().t()
