"""The triad by torch."""

from typing import Any

import torch

from ..arrays import poisoned
from ..providers import Prepared
from ..tensors import prepared
from . import S, Shape, Vectors

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")


def triad(a: Any, b: Any, c: Any, s: float) -> None:
    """a = b + s c for NumPy arrays."""
    torch.add(torch.from_numpy(b), torch.from_numpy(c), alpha=s, out=torch.from_numpy(a))


def prepare(shape: Shape, direction: str, data: Vectors, device: str, threads: int) -> list[Prepared]:
    """The one way that there is. See `Prepared`."""
    b, c = (torch.from_numpy(vector).to(device) for vector in data)
    a = torch.from_numpy(poisoned((shape.length,), data.b.dtype.name)).to(device)
    return [prepared(lambda: torch.add(b, c, alpha=S, out=a), a)]
