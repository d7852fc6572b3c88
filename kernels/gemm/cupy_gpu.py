"""Matrix product on a GPU by gemm.cu, in torch's memory, on the current stream, without waiting.

The launches follow from the addresses and strides of the matrices and are cached: from the second call on, a product of
the same matrices is looked up. The first call for a shape may compile kernels and time candidate tiles
(kernels/gemm/cuda/autotune.py).
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..cuda.architecture import Target
from ..cuda.gpu import gpu
from ..cuda.launch import Launch, keeping
from ..cuda.launch_plan import LaunchPlan
from ..cuda.program import Program
from ..cuda.tensor_map import encoded
from ..cuda.tile_candidates import candidates, engines
from ..cuda.tiling import BY_ROWS, KINDS, Operand, Result
from ..providers import Call, Prepared
from ..spec import DTYPES, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Tensors, dtype_of
from ..tensors import converted, prepared, result_of
from . import Shape
from .cuda.autotune import tile_of
from .cuda.launches import ALIGNMENT, SOURCE, definitions, launches, workspace_bytes
from .cuda.tensors import ProductTensors, check, is_contiguous, layout_of, operand, row_pitch

PROVIDER = "custom"
DEVICES = ("cuda",)

KNOWN = 4096  # cached launch plans


def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    type: str,
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    added: Tensor | None = None,
    relu: bool = False,
    factor: float = 1.0,
) -> None:
    """C = relu(scale * factor * A B + bias + added) in place; terms that are not given are left out.

    A is [m, k], B [k, n], C and `added` [m, n]; `added` may be C itself. scale and bias are [n], one number a column.
    All tensors are on one GPU, with the types of `type` in KINDS. Matrices may be row- or column-major with any pitch;
    others are copied. int8 products have no epilogue. ValueError if tensors do not fit, Unavailable if the GPU lacks
    instructions for the type.
    """
    given = (a, b, c, bias, scale, added)
    places = ProductTensors(
        layout_of(a), layout_of(b), layout_of(c), *[None if each is None else layout_of(each) for each in given[3:]]
    )
    launch_plan = plan(type, places, relu, factor)
    if launch_plan is None:
        _copied(given, type, relu, factor)
    else:
        launch_plan(launch_plan.workspace())


@lru_cache(KNOWN)
def plan(type: str, given: ProductTensors, relu: bool = False, factor: float = 1.0) -> LaunchPlan | None:
    """The launch plan; None if a tensor must be copied first."""
    check(type, given, relu or factor != 1.0)
    kind, (a, b, c, bias, scale, added) = KINDS[type], given
    left, right = operand(a, kind.operand_bytes), operand(b.transposed, kind.operand_bytes)
    pitch = row_pitch(c, kind.result_bytes)
    if left is None or right is None or pitch is None or not _usable(given):
        return None
    plus, times, shift = (each.address if each else 0 for each in (added, scale, bias))
    result, device = Result(c.address, pitch, plus, times, shift, factor, relu), torch.device("cuda", c.device)
    tile, processors = tile_of(type, left, right, device), gpu(device).processors

    def made(workspace: int) -> list[Launch]:
        return launches(type, left, right, result, tile, processors, workspace, encoded)

    return LaunchPlan(device, workspace_bytes(type, left, right, tile), made)


def _usable(given: ProductTensors) -> bool:
    """Whether the operands of the epilogue have the required layout."""
    vectors = [each for each in (given.bias, given.scale) if each]
    whole = all(each.dtype == "float32" and is_contiguous(each) for each in vectors)
    return whole and (given.added is None or given.added.strides == given.c.strides)


def _copied(given: tuple[Any, ...], type: str, relu: bool, factor: float) -> None:
    """Compute with tensors in a supported layout: transposed without a copy, else copied."""
    a, b, c, bias, scale, added = given
    if c.stride(0) == 1 != c.stride(1) and bias is None and scale is None:
        more = None if added is None else added.t()
        return gemm(b.t(), a.t(), c.t(), type, added=more, relu=relu, factor=factor)
    kind = KINDS[type]
    a, b = (each if operand(layout_of(each), kind.operand_bytes) else each.contiguous() for each in (a, b))
    apart = row_pitch(layout_of(c), kind.result_bytes) is not None
    result = c if apart else torch.empty_like(c, memory_format=torch.contiguous_format)
    if added is not None and added.stride() != result.stride():
        added = torch.empty_strided(result.shape, result.stride(), dtype=c.dtype, device=c.device).copy_(added)
    bias, scale = (None if each is None else each.float().contiguous() for each in (bias, scale))
    gemm(a, b, result, type, bias=bias, scale=scale, added=added, relu=relu, factor=factor)
    if result is not c:
        c.copy_(result)


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant, with its workspace allocated. See `Prepared`. Unavailable as in `gemm`."""
    dtype, kinds = dtype_of(data), DTYPES[dtype_of(data)]
    convert, c = converted(kinds, device), result_of(shape.result(direction), kinds, device)

    def bind(data: Tensors) -> Call:
        x, w, g = map(convert, data)
        a, b = {FORWARD: (x, w.t()), INPUT_GRADIENT: (g, w), WEIGHT_GRADIENT: (g.t(), x)}[direction]
        launch_plan = plan(dtype, ProductTensors(layout_of(a), layout_of(b), layout_of(c)))
        assert launch_plan is not None, "matrices in one piece"
        workspace = launch_plan.workspace()
        return keeping(lambda: launch_plan(workspace), a, b)

    return [prepared(bind, data, c)]


def programs(target: Target) -> list[Program]:
    """One kernel of each type and engine, of the smallest tile, to test compilation without a GPU."""
    lying = Operand(ALIGNMENT, ALIGNMENT, 1, ALIGNMENT, BY_ROWS)
    pairs = [(type, engine) for type in KINDS for engine in engines(type, target, boxes=True)]
    return [
        Program(SOURCE, "gemm", definitions(KINDS[type], lying, lying, tile, KINDS[type].name))
        for type, engine in pairs
        for tile in candidates(type, engine, target)[-1:]
    ]
