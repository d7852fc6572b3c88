"""Attention by the CUDA kernels, run on the host: one pass of a shape, with guards behind the results."""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from cuda_on_host import run

from hpcai.kernels.arrays import aligned
from hpcai.kernels.attention import Shape, cupy_gpu, reference
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.residual import worst
from hpcai.kernels.spec import FORWARD, Tensors

GUARD = 512  # numbers behind a result that must not be written


class Memory:
    """The arrays of a shape: operands, and results that nothing has written."""

    def __init__(self, shape: Shape, data: Tensors) -> None:
        self.shape, self.x, self.g = shape, aligned(data.x), aligned(data.g)
        self.out, self.dx = _unwritten(shape.y), _unwritten(shape.x)
        self.log_sums, self.means = _unwritten(shape.y[:3]), _unwritten(shape.y[:3])

    @property
    def forward(self) -> Launch:
        """The launch of the forward pass."""
        return cupy_gpu.pass_forward(self.shape, heads(self.x), *heads(self.out[None]), self.log_sums.ctypes.data)

    @property
    def backward(self) -> list[Launch]:
        """The launches of the gradients."""
        given = (*heads(self.x), *heads(self.out[None]), *heads(self.g[None]))
        addresses = self.log_sums.ctypes.data, self.means.ctypes.data
        return cupy_gpu.gradients(self.shape, given, heads(self.dx), *addresses)

    def run(self, launch: Launch, schedule: str, libraries: Mapping[str, ctypes.CDLL]) -> None:
        """Run a launch, by another library if there is one of its name; copies may read what is allocated."""
        arrays = (self.x, self.g, self.out, self.log_sums, self.means)
        ranges = [(each.ctypes.data, each.ctypes.data + each.nbytes) for each in arrays]
        run(launch, schedule, libraries.get(launch.program.name), ranges)
        results = (self.out, self.dx, self.log_sums, self.means)
        assert all(np.isnan(_guard(each)).all() for each in results), "written behind a result"


def _unwritten(size: tuple[int, ...]) -> Any:
    """An array of NaN, and behind it GUARD more."""
    count = int(np.prod(size))
    return aligned(np.full(count + GUARD, np.nan, np.float32))[:count].reshape(size)


def _guard(array: Any) -> Any:
    kind = ctypes.c_float * GUARD
    return np.frombuffer(kind.from_address(array.ctypes.data + array.nbytes), np.float32)


def heads(arrays: Any) -> tuple[cupy_gpu.Heads, ...]:
    """Of each array [batch, heads, places, features] of several."""
    return tuple(cupy_gpu.Heads(each.ctypes.data, *(nbytes // 4 for nbytes in each.strides[:3])) for each in arrays)


def computed(
    shape: Shape, direction: str, data: Tensors, schedule: str, libraries: Mapping[str, ctypes.CDLL] | None = None
) -> Any:
    """The result of a direction, kernels by name taken from `libraries` where these have them."""
    memory = Memory(shape, data)
    memory.run(memory.forward, schedule, libraries or {})
    if direction == FORWARD:
        return memory.out
    for launch in memory.backward:
        memory.run(launch, schedule, libraries or {})
    return memory.dx


def residual(shape: Shape, direction: str, data: Tensors, result: Any) -> float:
    """The worst element, limit 1."""
    return worst(reference.compared(result, data, shape, direction))
