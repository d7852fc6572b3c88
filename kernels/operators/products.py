"""The products of the operators: allocate results, and fill them by custom or site kernels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from ..conv2d import Shape
from ..spec import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT

LAST = torch.channels_last
KNOWN = 4096  # number of cached layer shapes
BACKENDS = {"cpu": "on_cpu", "cuda": "on_gpu"}
REPLACEABLE = ("convolve", "multiply")
Size = tuple[int, ...]
_sites: dict[str, Callable[..., None]] = {}  # site kernels that replace custom kernels


@contextmanager
def replaced(functions: Mapping[str, Callable[..., None]]) -> Iterator[None]:
    """While the block runs, these functions fill results instead of custom kernels, by the names in REPLACEABLE."""
    _sites.update(functions)
    try:
        yield
    finally:
        _sites.clear()


def convolution(x: Tensor, w: Tensor, *window: Any) -> Tensor:
    """y of x and w; as `operators.convolution`."""
    return _convolved(FORWARD, x, w, _shape(x.shape, w.shape, *map(_hashed, window)))


def convolution_normalised(x: Tensor, w: Tensor, other: Tensor | None, *rest: Any) -> Tensor:
    """Convolution, batch norm by known moments, addition of `other`, and ReLU; see `fused_evaluation`."""
    *vectors, eps, relu, stride, padding, dilation, groups = rest
    _check(x, w)
    shape = _shape(x.shape, w.shape, *map(_hashed, (stride, padding, dilation, groups)))
    y = torch.empty(shape.y, dtype=x.dtype, device=x.device, memory_format=LAST)
    sizes = [(tuple(each.shape), each.dtype) for each in (vectors if other is None else (*vectors, other))]
    wanted = [((shape.filters,), vectors[0].dtype)] * 4 + [(shape.y, x.dtype)] * (other is not None)
    if sizes != wanted or groups != 1:
        raise RuntimeError(f"convolution and batch norm of {sizes} in {groups} groups; allowed: {wanted} in one")
    _backend(x.device.type).convolve_normalised(x, w, other, y, shape, vectors, eps, relu)
    return y


def has_epilogue() -> bool:
    """Whether convolutions support an epilogue: custom kernels do, site kernels do not."""
    return "convolve" not in _sites


def convolution_input(g: Tensor, w: Tensor, size: Sequence[int], *window: Any) -> Tensor:
    """The gradient of x, of that size, from g, the gradient of y."""
    return _convolved(INPUT_GRADIENT, g, w, _shape(tuple(size), w.shape, *map(_hashed, window)))


def convolution_weight(x: Tensor, g: Tensor, size: Sequence[int], *window: Any) -> Tensor:
    """The gradient of w, of that size."""
    return _convolved(WEIGHT_GRADIENT, x, g, _shape(x.shape, tuple(size), *map(_hashed, window)))


def dense(x: Tensor, w: Tensor) -> Tensor:
    """x w^T; as `operators.dense`, for two dimensions."""
    return _multiplied(x, w.t())


def dense_input(g: Tensor, w: Tensor) -> Tensor:
    """The gradient of x, g w."""
    return _multiplied(g, w)


def dense_weight(x: Tensor, g: Tensor) -> Tensor:
    """The gradient of w, g^T x."""
    return _multiplied(g.t(), x)


def convolution_bytes(x: Tensor, w: Tensor, *window: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The int8 convolution of x and w, and the scales; as `operators.convolution_int8`."""
    _check(x, w)
    shape = _shape(x.shape, w.shape, *map(_hashed, window))
    if min(shape.padding) < 0:
        raise RuntimeError(f"convolution of bytes with padding {shape.padding}; allowed: 0 and more")
    y, *scales = _backend(x.device.type).convolve_bytes(x, w, shape)
    return y, *scales


def dense_bytes(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for x w^T, for two dimensions."""
    _check_matrices(x, w.t())
    y, *scales = _backend(x.device.type).multiply_bytes(x, w)
    return y, *scales


def nearest(x: Tensor, scales: Tensor) -> Tensor:
    """Dequantised x with scales along its first dimension: the nearest numbers that its bytes represent."""
    found: Tensor = _backend(x.device.type).nearest(x, scales)
    return found


def by_torch(x: Tensor, w: Tensor, *window: Any) -> Tensor:
    """`convolution` by torch; on CPUs, 16-bit types are computed in fp32."""
    kind = _summed(x)
    y: Tensor = torch.ops.aten.convolution(x.to(kind), w.to(kind), None, *window[:3], False, (0, 0), window[3])
    return y.to(x.dtype)


def gradients_by_torch(g: Tensor, x: Tensor, w: Tensor, *rest: Any) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of x and w requested by the last argument; None for the others."""
    *window, wanted = rest
    kind = _summed(x)
    operands = (each.to(kind) for each in (g, x, w))
    found = torch.ops.aten.convolution_backward(
        *operands, None, *window[:3], False, (0, 0), window[3], [*wanted, False]
    )
    dx, dw = (each.to(x.dtype) if want else None for each, want in zip(found, wanted, strict=False))
    return dx, dw


def _summed(x: Tensor) -> torch.dtype:
    return torch.float32 if x.device.type == "cpu" and x.itemsize == 2 else x.dtype


def shape_of(x: Sequence[int], w: Sequence[int], *window: Any) -> Shape:
    """The shape of a convolution. RuntimeError if the sizes do not fit."""
    return _shape(tuple(x), tuple(w), *map(_hashed, window))


def _hashed(value: Any) -> Any:
    return value if isinstance(value, int) else tuple(value)


@lru_cache(KNOWN)
def _shape(x: Size, w: Size, stride: Any, padding: Any, dilation: Any, groups: int) -> Shape:
    batch, channels, height, width = x
    filters, _, down, across = w
    try:
        shape = Shape(batch, channels, height, width, filters, (down, across), stride, padding, dilation, groups)
    except ValueError as error:
        raise RuntimeError(f"convolution of {tuple(x)} by weights {tuple(w)}: {error}") from None
    if shape.w != tuple(w):
        raise RuntimeError(f"convolution of {tuple(x)} by weights {tuple(w)} in {groups} groups; allowed: {shape.w}")
    return shape


@lru_cache(KNOWN)
def _sizes(direction: str, shape: Shape) -> tuple[Size, Size, Size]:
    """Sizes of both operands and the result."""
    return {
        FORWARD: (shape.x, shape.w, shape.y),
        INPUT_GRADIENT: (shape.y, shape.w, shape.x),
        WEIGHT_GRADIENT: (shape.x, shape.y, shape.w),
    }[direction]


def _convolved(direction: str, one: Tensor, other: Tensor, shape: Shape) -> Tensor:
    _check(one, other)
    *wanted, made = _sizes(direction, shape)
    if [one.shape, other.shape] != wanted:
        raise RuntimeError(
            f"{direction} of a convolution of {tuple(one.shape)} and {tuple(other.shape)}; allowed: {wanted}"
        )
    result = torch.empty(made, dtype=one.dtype, device=one.device, memory_format=LAST)
    _kernel("convolve", one.device.type)(direction, one, other, result, shape)
    return result


def _multiplied(a: Tensor, b: Tensor) -> Tensor:
    _check_matrices(a, b)
    result = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    _kernel("multiply", a.device.type)(a, b, result)
    return result


def _check_matrices(a: Tensor, b: Tensor) -> None:
    _check(a, b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(f"a product of {tuple(a.shape)} and {tuple(b.shape)}; allowed: (m, k) and (k, n)")


def _check(one: Tensor, other: Tensor) -> None:
    if one.dtype != other.dtype or one.device != other.device:
        given = f"{one.dtype} on {one.device} and {other.dtype} on {other.device}"
        raise RuntimeError(f"a product of tensors of {given}; allowed: of one type, on one device")


def _kernel(name: str, device: str) -> Callable[..., None]:
    """The function that fills a result: a site kernel if there is one, else the custom kernel."""
    return _sites.get(name) or getattr(_backend(device), name)


@cache
def _backend(device: str) -> Any:
    return import_module(f"{__package__}.{BACKENDS[device]}")
