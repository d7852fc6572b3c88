"""The triad by torch."""

from typing import Any

import torch


def triad(a: Any, b: Any, c: Any, s: float) -> None:
    """a = b + s c, arrays of NumPy."""
    torch.add(torch.from_numpy(b), torch.from_numpy(c), alpha=s, out=torch.from_numpy(a))
