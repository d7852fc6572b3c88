"""Causal attention on CPUs in Numba: entry points for arrays and addresses, fp32."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..arrays import poisoned
from ..cpu.workspace import workspace
from ..providers import Call, Prepared, Unavailable
from ..spec import FORWARD, Tensors, dtype_of
from . import LOG2_E, Shape, check
from .cpu import backward as gradients
from .cpu import forward as pass_forward
from .cpu import rotation
from .cpu.layout import Heads, layout
from .cpu.products import kernels

PROVIDER = "custom"
DEVICES = ("cpu",)

ONE = np.float32(1)


def forward(shape: Shape, q: Heads, k: Heads, v: Heads, out: Heads, log_sums: int, threads: int) -> None:
    """Fill the output, and float32[batch, heads, places] with the base-2 logarithms of the rows' sums of powers.

    The heads are divided among the threads, so that no more of these than heads compute.
    """
    check(shape)
    plan, count = layout(shape.heads, shape.places, shape.features, False), shape.batch * shape.heads
    memory, scale = workspace(threads * plan.nbytes), np.float32(shape.scale * LOG2_E)
    pass_forward.forward(kernels(ONE), ONE, scale, count, (q, k, v, out), log_sums, plan, memory, threads)


def backward(
    shape: Shape, given: tuple[Heads, ...], made: tuple[Heads, ...], log_sums: int, threads: int
) -> None:
    """Fill the gradients `made` of q, k and v; given: q, k, v, the output and its gradient."""
    check(shape)
    plan, count = layout(shape.heads, shape.places, shape.features, True), shape.batch * shape.heads
    memory, scales = workspace(threads * plan.nbytes), (np.float32(shape.scale), np.float32(shape.scale * LOG2_E))
    gradients.backward(kernels(ONE), ONE, scales, count, given, made, log_sums, plan, memory, threads)


class _Sizes(NamedTuple):
    """The sizes of a shape, as compiled code takes them."""

    batch: int
    heads: int
    places: int
    features: int


def rotate(
    shape: Shape, source: Heads, target: Heads, cosines: int, sines: int, threads: int, backwards: bool = False
) -> None:
    """Fill the target with the rotated rows of the source; cosines and sines: addresses of [places, features / 2]."""
    check(shape)
    direction = -ONE if backwards else ONE
    rotation.rotate(direction, _Sizes(*shape.y), source, target, (cosines, sines), threads)


def heads_of(array: Any) -> Heads:
    """Address and strides of an array [batch, heads, places, features], which must not move."""
    assert array.dtype == np.float32 and array.strides[3] == array.itemsize
    return Heads(array.ctypes.data, *array.strides[:3])


def prepare(shape: Shape, direction: str, data: Tensors, device: str, threads: int) -> list[Prepared]:
    """The only variant. See `Prepared`. A backward pass is given the output of a forward pass, which is not timed."""
    if dtype_of(data) != "fp32":
        raise Unavailable(f"attention in {dtype_of(data)} in Numba; there is fp32")
    result = poisoned(shape.result(direction), "float32")

    def bind(data: Tensors) -> Call:
        out = result if direction == FORWARD else poisoned(shape.y, "float32")
        log_sums = np.empty(shape.y[:3], np.float32)
        q, k, v = map(heads_of, data.x)
        first = partial(forward, shape, q, k, v, heads_of(out), log_sums.ctypes.data, threads)
        if direction == FORWARD:
            return _keeping(first, log_sums, result, data)
        first()
        given, made = (q, k, v, heads_of(out), heads_of(data.g)), tuple(map(heads_of, result))
        second = partial(backward, shape, given, made, log_sums.ctypes.data, threads)
        return _keeping(second, out, log_sums, result, data)

    return [Prepared(bind(data), lambda: result, lambda: result.fill(np.nan), bind=bind, view=lambda: result)]


def _keeping(call: Call, *arrays: Any) -> Call:
    """The call, with arrays that it is given by address."""

    def keep() -> Any:
        assert arrays
        return call()

    return keep
