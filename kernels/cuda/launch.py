"""Kernel launches on torch's streams. A launch is data, which needs no GPU, CuPy or torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .architecture import Target, target
from .compiler import compiled, supported
from .program import Program
from .tensor_map import ALIGNMENT, MAP

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Launch:
    """A kernel, its grid, threads of a block, bytes of dynamic shared memory, and arguments.

    Arguments are NumPy scalars (an address is a uint64), or arrays of one element, which are passed by value
    (`parameters`). Cluster sizes are declared in the kernel.
    """

    program: Program
    grid: tuple[int, int, int]
    block: int
    shared: int
    arguments: tuple[Any, ...]

    def __post_init__(self) -> None:
        for place, each in enumerate(self.arguments):
            if not isinstance(each, np.generic) and not (isinstance(each, np.ndarray) and each.size == 1):
                raise TypeError(f"{self.program}: argument {place} is {type(each)}; allowed: NumPy scalar, struct")


def structure(*fields: tuple[str, Any]) -> np.dtype[Any]:
    """NumPy type with the layout of a C++ struct of these fields.

    A field may be a structure, an array such as ("sizes", ("i4", 3)), or a tensor map (MAP).
    """
    end, offsets = 0, []
    for _, kind in fields:
        offsets.append(_multiple(end, _alignment(np.dtype(kind))))
        end = offsets[-1] + np.dtype(kind).itemsize
    names, formats = zip(*fields, strict=True)
    size = _multiple(end, max(_alignment(np.dtype(kind)) for kind in formats))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def _alignment(kind: np.dtype[Any]) -> int:
    """Alignment in bytes under C++ rules; NumPy knows it for numbers and arrays of numbers."""
    if kind == MAP:
        return ALIGNMENT
    if kind.base.fields:
        return max(_alignment(field[0]) for field in kind.base.fields.values())
    return kind.alignment


def parameters(dtype: np.dtype[Any], **fields: Any) -> Any:
    """A struct passed by value: an array of one element of that type, at a multiple of 64 bytes.

    Fields that are not given are zero.
    """
    memory = np.zeros(_multiple(dtype.itemsize, ALIGNMENT) + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    struct = memory[first : first + dtype.itemsize].view(dtype)
    for name, value in fields.items():
        struct[name] = value
    return struct


def _multiple(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def addresses(*tensors: torch.Tensor) -> tuple[np.uint64, ...]:
    """Address arguments of tensors."""
    return tuple(np.uint64(tensor.data_ptr()) for tensor in tensors)


def target_of(device: torch.device) -> Target:
    """Compilation target of a GPU. Unavailable without NVRTC, or if the GPU is too old for it."""
    import torch

    return target(torch.cuda.get_device_capability(device), supported())


def enqueue(launch: Launch, device: torch.device) -> None:
    """Enqueue a kernel on torch's current stream of a GPU without waiting; compiled and loaded at its first use."""
    import torch

    with torch.cuda.device(device):
        _resolved(launch, device)()


def ready(launch: Launch, device: torch.device) -> Callable[[], None]:
    """A function that repeats the launch without any lookup, on the stream that is current now.

    The GPU must be torch's current device at each call.
    """
    import torch

    with torch.cuda.device(device):
        return _resolved(launch, device)


def keeping(call: Callable[[], None], *tensors: torch.Tensor) -> Callable[[], None]:
    """The same call, holding references to tensors that it knows only by address."""
    return partial(_call, call, tensors)


def _call(call: Callable[[], None], kept: tuple[torch.Tensor, ...]) -> None:
    call()


class _Stream(NamedTuple):
    """The attributes that CuPy needs of a foreign stream."""

    ptr: int


def _resolved(launch: Launch, device: torch.device) -> Callable[[], None]:
    import torch

    function = _function(launch.program, launch.shared, device)
    stream = _Stream(torch.cuda.current_stream(device).cuda_stream)
    block, shared = (launch.block, 1, 1), launch.shared
    return partial(function, launch.grid, block, launch.arguments, shared_mem=shared, stream=stream)


@cache
def _function(program: Program, shared: int, device: torch.device) -> Any:
    function = _module(replace(program, name=""), device).get_function(program.name)
    _permit(function, shared)
    return function


def _permit(function: Any, shared: int) -> None:
    """Request that much dynamic shared memory, which is required above 48 KiB."""
    from cupy.cuda import driver

    attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if shared > driver.funcGetAttribute(attribute, function.ptr):
        driver.funcSetAttribute(function.ptr, attribute, shared)


@cache
def _module(file: Program, device: torch.device) -> Any:
    """All kernels of a file, loaded into the primary context of the device, which torch uses."""
    assert device.index is not None, "the current device may be another one next time"
    made = compiled(file, target_of(device))
    from cupy.cuda import Module  # whose presence `compiled` has established

    module = Module()
    module.load(made.image)
    return module
