"""Attention and RMS norm of sequences, ours against torch's: the calls that benchmarks/kernels.py times."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

PLACES = (128, 256, 512, 1024, 2048)
TOKENS, HEADS = 2048, 4  # of all sequences together; heads of 64
WIDTHS = (128, 512, 768, 2048)
Calls = dict[str, Callable[[], Any]]


def attention(threads: int) -> Iterator[tuple[str, float, Calls]]:
    """Title, operations and calls of each number of places: forward, and forward and backward."""
    from hpcai.kernels import attention
    from hpcai.kernels.attention import numba_cpu
    from hpcai.kernels.spec import FORWARD, INPUT_GRADIENT
    from hpcai.kernels.verify import drawn

    for places in PLACES:
        shape = attention.Shape(max(1, TOKENS // places), HEADS, places)
        data, count = drawn(shape, "fp32", 1), attention.operations(shape)
        ours = [numba_cpu.prepare(shape, each, data, "cpu", threads)[0] for each in (FORWARD, INPUT_GRADIENT)]
        forward, both = _attention_of_torch(data)
        title = f"attention {shape.text(FORWARD)}, {threads} threads"
        yield f"{title}, forward", count, {"ours": partial(_one_by_one, ours[:1]), "torch": forward}
        yield f"{title}, both", 3.0 * count, {"ours": partial(_one_by_one, ours), "torch": both}


def _one_by_one(prepared: list[Any]) -> None:
    for each in prepared:
        each.call()


def _attention_of_torch(data: Any) -> list[Callable[[], Any]]:
    import torch
    from torch.nn import functional

    q, k, v = torch.from_numpy(data.x)
    g, operands = torch.from_numpy(data.g), [each.clone().requires_grad_() for each in (q, k, v)]

    def forward() -> None:
        functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def both() -> None:
        torch.autograd.grad(functional.scaled_dot_product_attention(*operands, is_causal=True), operands, g)

    return [forward, both]


def rms_norm(threads: int) -> Iterator[tuple[str, float, Calls]]:
    """Title, bytes and calls of each width, forward and forward and backward, both as functions of torch."""
    import torch
    from torch.nn import functional

    from hpcai.kernels import rms_norm
    from hpcai.kernels.operators import sequences

    for width in WIDTHS:
        x, weight = torch.randn(TOKENS, width), torch.randn(width)
        wanted, g = (x.clone().requires_grad_(), weight.clone().requires_grad_()), torch.randn(TOKENS, width)
        functions = {
            "ours": lambda x, weight: sequences.rms_norm(x, weight, 1e-6),
            "torch": lambda x, weight: functional.rms_norm(x, weight.shape, weight, 1e-6),
        }
        forward = {name: partial(function, x, weight) for name, function in functions.items()}
        both = {name: partial(_gradients, function, wanted, g) for name, function in functions.items()}
        shape = rms_norm.Shape(TOKENS, width)
        moved = rms_norm.nbytes(shape)
        title = f"RMS norm {shape.text}, {threads} threads, GB/s"
        yield f"{title}, forward", moved, forward
        yield f"{title}, both", moved + rms_norm.nbytes(shape, rms_norm.BACKWARD), both


def sums(threads: int) -> Iterator[tuple[str, float, Calls]]:
    """As `rms_norm`, of a sum and its norm, both of which are read."""
    import torch
    from torch.nn import functional

    from hpcai.kernels import rms_norm
    from hpcai.kernels.operators import sequences

    def by_torch(x: Any, other: Any, weight: Any) -> Any:
        total = x + other
        return total, functional.rms_norm(total, weight.shape, weight, 1e-6)

    for width in WIDTHS:
        size = TOKENS, width
        x, other, weight, *g = (torch.randn(each) for each in (size, size, (width,), size, size))
        wanted = tuple(each.clone().requires_grad_() for each in (x, other, weight))
        functions = {"ours": lambda *given: sequences.added_norm(*given, 1e-6), "torch": by_torch}
        forward = {name: partial(function, x, other, weight) for name, function in functions.items()}
        both = {name: partial(_gradients, function, wanted, g) for name, function in functions.items()}
        moved = 2 * rms_norm.nbytes(rms_norm.Shape(*size))
        title = f"sum and RMS norm rows{TOKENS} features{width}, {threads} threads, GB/s"
        yield f"{title}, forward", moved, forward
        yield f"{title}, both", 2 * moved, both


def _gradients(function: Callable[..., Any], operands: Any, g: Any) -> None:
    import torch

    torch.autograd.grad(function(*operands), operands, g)
