"""Copy on a GPU: 16-byte accesses that bypass L1."""

from typing import Any

import torch

from ..arrays import poisoned
from ..cuda import elementwise as stream
from ..cuda.architecture import Target
from ..cuda.gpu import gpu
from ..cuda.launch import Launch, keeping, parameters, ready, structure
from ..cuda.program import Program
from ..providers import Call, Prepared
from ..tensors import prepared
from . import Shape

PROVIDER = "custom"
DEVICES = ("cuda",)

PARAMETERS = structure(("a", "u8"), ("b", "u8"), ("length", "i8"))


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return stream.programs("copy", target)


def launch(a: int, b: int, dtype: str, length: int, processors: int) -> Launch:
    """The launch for vectors at these addresses, of a NumPy type."""
    return stream.launch("copy", dtype, length, processors, parameters(PARAMETERS, a=a, b=b, length=length))


def prepare(shape: Shape, direction: str, data: Any, device: str, threads: int) -> list[Prepared]:
    """The only variant; `data` is b. See `Prepared`. Unavailable without NVRTC."""
    place, dtype = torch.device(device), data.dtype.name
    a = torch.from_numpy(poisoned((shape.length,), dtype)).to(place)

    def bind(data: Any) -> Call:
        b = torch.from_numpy(data).to(place)
        made = launch(a.data_ptr(), b.data_ptr(), dtype, shape.length, gpu(place).processors)
        return keeping(ready(made, place), b)

    return [prepared(bind, data, a)]
