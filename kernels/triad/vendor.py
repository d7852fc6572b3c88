"""The triad by torch."""

from typing import Any

import torch

from ..arrays import Once, poisoned
from ..providers import Call, Prepared
from ..tensors import prepared
from . import S, Shape, Vectors

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")


def triad(a: Any, b: Any, c: Any, s: float) -> None:
    """a = b + s c for NumPy arrays."""
    torch.add(torch.from_numpy(b), torch.from_numpy(c), alpha=s, out=torch.from_numpy(a))


def prepare(shape: Shape, direction: str, data: Vectors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`."""
    a = torch.from_numpy(poisoned((shape.length,), data.b.dtype.name)).to(device)
    convert = Once(lambda vector: torch.from_numpy(vector).to(device))

    def bind(data: Vectors) -> Call:
        b, c = map(convert, data)
        return lambda: torch.add(b, c, alpha=S, out=a)

    return [prepared(bind, data, a)]
