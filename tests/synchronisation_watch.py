"""Training steps watched for synchronisation: operations and methods that need a number from the GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hpcai.train.loop import Training

# On a GPU the size of their result has to be known first; and the result of torch.tensor is copied there.
SIZED = ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount", "repeat_interleave")
WAITING_OPERATIONS = ("_local_scalar_dense", "item", "equal", "is_nonzero", "lift_fresh", "index by flags", *SIZED)
WAITING_METHODS = ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__")


class Operations(TorchDispatchMode):
    """Records the name of every operation that torch executes, including those of the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    @property
    def waits(self) -> list[str]:
        """The recorded operations that wait for a GPU."""
        return [name for name in self.names if name in WAITING_OPERATIONS]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        flags = name in ("index", "index_put", "index_put_") and any(
            each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1]
        )
        self.names.append("index by flags" if flags else name)
        return function(*args, **(kwargs or {}))


@contextmanager
def epochs_watched(patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of all operations and methods inside epochs that wait for the device, or would on a GPU."""
    waits: list[str] = []
    counts: list[int] = []
    epoch = Training._epoch

    def watched(self: Training, *arguments: Any) -> None:
        with Operations() as operations, pytest.MonkeyPatch.context() as inside:
            for name in WAITING_METHODS:
                inside.setattr(torch.Tensor, name, noting(getattr(torch.Tensor, name), waits))
            epoch(self, *arguments)
        waits.extend(operations.waits)
        counts.append(len(operations.names))

    patch.setattr(Training, "_epoch", watched)
    yield waits
    assert counts[0] > 100  # they were recorded at all
    assert len(set(counts[1:])) <= 1  # and their number does not grow


def noting(method: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def noted(self: torch.Tensor, *arguments: Any) -> Any:
        calls.extend([method.__name__] * (current_thread() is main_thread()))  # the loading thread has no device
        return method(self, *arguments)

    return noted
