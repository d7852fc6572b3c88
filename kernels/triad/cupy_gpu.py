"""Triad on a GPU: 16-byte accesses that bypass L1."""

import torch

from ..arrays import Once, poisoned
from ..cuda import elementwise as stream
from ..cuda.architecture import Target
from ..cuda.gpu import gpu
from ..cuda.launch import Launch, keeping, parameters, ready, structure
from ..cuda.program import Program
from ..providers import Call, Prepared
from ..tensors import prepared
from . import S, Shape, Vectors

PROVIDER = "custom"
DEVICES = ("cuda",)

PARAMETERS = structure(("a", "u8"), ("b", "u8"), ("c", "u8"), ("s", "f8"), ("length", "i8"))


def programs(target: Target) -> tuple[Program, ...]:
    """All kernels launched on such a GPU."""
    return stream.programs("triad", target)


def launch(a: int, b: int, c: int, dtype: str, length: int, processors: int) -> Launch:
    """The launch for vectors at these addresses, of a NumPy type."""
    given = parameters(PARAMETERS, a=a, b=b, c=c, s=S, length=length)
    return stream.launch("triad", dtype, length, processors, given)


def prepare(shape: Shape, direction: str, data: Vectors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`. Unavailable without NVRTC."""
    place, dtype = torch.device(device), data.b.dtype.name
    convert = Once(lambda vector: torch.from_numpy(vector).to(place))
    a = convert(poisoned((shape.length,), dtype))

    def bind(data: Vectors) -> Call:
        b, c = map(convert, data)
        made = launch(a.data_ptr(), b.data_ptr(), c.data_ptr(), dtype, shape.length, gpu(place).processors)
        return keeping(ready(made, place), b, c)

    return [prepared(bind, data, a)]
