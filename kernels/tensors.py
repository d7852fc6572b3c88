"""Operands and results as torch tensors, on a CPU or a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .arrays import poison, poisoned
from .providers import Prepared
from .spec import Dtype, Tensors

PLAIN = torch.contiguous_format
LAYOUT = {2: PLAIN, 4: torch.channels_last}  # memory format of a layer in training, by its dimensions


def operands(data: Tensors, kinds: Dtype, device: str, layout: torch.memory_format = PLAIN) -> tuple[Tensor, ...]:
    """x, w and g as tensors of their types."""
    kind = getattr(torch, kinds.operand)
    return tuple(torch.from_numpy(each).to(device, kind, memory_format=layout) for each in data)


def result_of(size: tuple[int, ...], kinds: Dtype, device: str, layout: torch.memory_format = PLAIN) -> Tensor:
    """A poisoned tensor for the result."""
    filled = torch.from_numpy(poisoned(size, kinds.computed))
    return filled.to(device, getattr(torch, kinds.result), memory_format=layout)


def prepared(call: Callable[[], Any], result: Tensor, variant: str = "", slack: float = 1.0) -> Prepared:
    """A prepared product whose result is a tensor; 16-bit results are converted to fp32 on the host."""
    host = torch.float32 if result.is_floating_point() and result.itemsize == 2 else result.dtype
    wrong = poison(str(host).removeprefix("torch."))
    return Prepared(call, lambda: result.to(host).cpu().numpy(), lambda: result.fill_(wrong), variant, slack)
