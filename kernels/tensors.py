"""Operands and results as torch tensors, on a CPU or a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .arrays import Once, poison, poisoned
from .providers import Call, Prepared
from .spec import Dtype

PLAIN = torch.contiguous_format
LAYOUT = {2: PLAIN, 4: torch.channels_last}  # memory format of a layer in training, by its dimensions


def converted(kinds: Dtype, device: str, layout: torch.memory_format = PLAIN) -> Once:
    """Conversion of operands to tensors of their type on the device."""
    kind = getattr(torch, kinds.operand)
    return Once(lambda array: torch.from_numpy(array).to(device, kind, memory_format=layout))


def result_of(size: tuple[int, ...], kinds: Dtype, device: str, layout: torch.memory_format = PLAIN) -> Tensor:
    """A poisoned tensor for the result."""
    filled = torch.from_numpy(poisoned(size, kinds.computed))
    return filled.to(device, getattr(torch, kinds.result), memory_format=layout)


def prepared(
    bind: Callable[[Any], Call], data: Any, result: Tensor, variant: str = "", slack: float = 1.0
) -> Prepared:
    """A prepared product of `data` whose result is a tensor; `bind` returns the call for any operands.

    16-bit results are converted to fp32 on the host.
    """
    wrong = poison(host_type(result))
    return Prepared(
        bind(data), lambda: on_host(result), lambda: result.fill_(wrong), variant, slack, bind, lambda: result
    )


def on_host(tensor: Tensor) -> Any:
    """The numbers of a tensor as a NumPy array."""
    return tensor.to(getattr(torch, host_type(tensor))).cpu().numpy()


def host_type(tensor: Tensor) -> str:
    """NumPy's type of a tensor's numbers on the host: fp32 for 16-bit ones."""
    halves = tensor.is_floating_point() and tensor.itemsize == 2
    return "float32" if halves else str(tensor.dtype).removeprefix("torch.")
