"""Copy by torch, on a GPU by the driver."""

from typing import Any

import torch

from ..arrays import poisoned
from ..providers import Prepared
from ..tensors import prepared
from . import Shape

PROVIDER = "vendor"
DEVICES = ("cpu", "cuda")


def prepare(shape: Shape, direction: str, data: Any, device: str, threads: int) -> list[Prepared]:
    """The only variant; `data` is b. See `Prepared`."""
    b = torch.from_numpy(data).to(device)
    a = torch.from_numpy(poisoned((shape.length,), data.dtype.name)).to(device)
    return [prepared(lambda: a.copy_(b), a)]
