"""Attention by the CUDA kernels, run on the host: one pass of a shape, with guards behind the results; as functions of
torch.
"""

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from cuda_on_host import SCHEDULES, run

from hpcai.kernels.arrays import aligned
from hpcai.kernels.attention import Shape, cupy_gpu, reference
from hpcai.kernels.cuda.architecture import CUBIN, Target
from hpcai.kernels.cuda.gpu import Gpu
from hpcai.kernels.cuda.launch import Launch
from hpcai.kernels.operators import sequences
from hpcai.kernels.residual import worst
from hpcai.kernels.rms_norm import cupy_gpu as norms
from hpcai.kernels.spec import FORWARD, Tensors, dtype_of

GUARD = 2048  # bytes behind a result that must not be written
UNWRITTEN = b"\xff"
AMPERE = Target("sm_80", CUBIN, (8, 0))
OF_BITS = {"fp16": np.float16, "bf16": np.uint16}  # NumPy's types of what lies in memory


class Memory:
    """The arrays of a shape: operands, and results that nothing has written."""

    def __init__(self, shape: Shape, data: Tensors) -> None:
        self.shape, self.dtype, kind = shape, dtype_of(data), OF_BITS.get(dtype_of(data), np.float32)
        self.x, self.g = (aligned(to_bits(each, self.dtype)) for each in (data.x, data.g))
        self.out, self.dx = _unwritten(shape.y, kind), _unwritten(shape.x, kind)
        self.log_sums, self.means = (_unwritten(shape.y[:3], np.float32) for _ in range(2))

    @property
    def forward(self) -> Launch:
        """The launch of the forward pass."""
        given = heads(self.x), *heads(self.out[None]), self.log_sums.ctypes.data
        return cupy_gpu.pass_forward(self.shape, *given, self.dtype)

    @property
    def backward(self) -> list[Launch]:
        """The launches of the gradients."""
        given = (*heads(self.x), *heads(self.out[None]), *heads(self.g[None]))
        addresses = self.log_sums.ctypes.data, self.means.ctypes.data
        return cupy_gpu.gradients(self.shape, given, heads(self.dx), *addresses, self.dtype)

    def run(self, launch: Launch, schedule: str, libraries: Mapping[str, ctypes.CDLL]) -> None:
        """Run a launch, by another library if there is one of its name; copies may read what is allocated."""
        arrays = (self.x, self.g, self.out, self.log_sums, self.means)
        ranges = [(each.ctypes.data, each.ctypes.data + each.nbytes) for each in arrays]
        run(launch, schedule, libraries.get(launch.program.name), ranges)
        results = (self.out, self.dx, self.log_sums, self.means)
        assert all(_guard(each) == UNWRITTEN * GUARD for each in results), "written behind a result"


def _unwritten(size: tuple[int, ...], kind: Any) -> Any:
    """An array of bytes that are NaN in every type, and behind it GUARD more."""
    nbytes = int(np.prod(size)) * np.dtype(kind).itemsize
    return aligned(np.frombuffer(UNWRITTEN * (nbytes + GUARD), np.uint8))[:nbytes].view(kind).reshape(size)


def _guard(array: Any) -> bytes:
    return ctypes.string_at(array.ctypes.data + array.nbytes, GUARD)


def to_bits(numbers: Any, dtype: str) -> Any:
    """Numbers as their type is in memory: itself, or of bf16 the upper bits of fp32."""
    if dtype == "bf16":
        return (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(OF_BITS.get(dtype, np.float32))


def from_bits(array: Any, dtype: str) -> Any:
    """The numbers in fp32."""
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def heads(arrays: Any) -> tuple[cupy_gpu.Heads, ...]:
    """Of each array [batch, heads, places, features] of several."""
    return tuple(
        cupy_gpu.Heads(each.ctypes.data, *(nbytes // each.itemsize for nbytes in each.strides[:3])) for each in arrays
    )


def computed(
    shape: Shape, direction: str, data: Tensors, schedule: str, libraries: Mapping[str, ctypes.CDLL] | None = None
) -> Any:
    """The result of a direction, kernels by name taken from `libraries` where these have them."""
    memory = Memory(shape, data)
    memory.run(memory.forward, schedule, libraries or {})
    if direction == FORWARD:
        return from_bits(memory.out, memory.dtype)
    for launch in memory.backward:
        memory.run(launch, schedule, libraries or {})
    return from_bits(memory.dx, memory.dtype)


def residual(shape: Shape, direction: str, data: Tensors, result: Any) -> float:
    """The worst element, limit 1."""
    return worst(reference.compared(result, data, shape, direction))


@contextmanager
def on_host(patch: pytest.MonkeyPatch) -> Iterator[list[Launch]]:
    """The host replaces the GPU: tensors of CPUs are computed by the CUDA kernels, whose launches are recorded."""
    ran: list[Launch] = []

    def enqueue(launch: Launch, device: torch.device) -> None:
        ran.append(launch)
        run(launch, SCHEDULES[0])

    with patch.context() as own:
        own.setattr(sequences, "BACKENDS", {"cpu": "sequences_on_gpu"})
        for module in (cupy_gpu, norms):
            own.setattr(module, "enqueue", enqueue)
        own.setattr(cupy_gpu, "target_of", lambda device: AMPERE)
        own.setattr(norms, "gpu", lambda device: Gpu("the host", AMPERE, 2, 0))
        sequences._backend.cache_clear()
        yield ran
    sequences._backend.cache_clear()
