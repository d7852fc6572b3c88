"""The weights that are judged are the last ones: checksums before, in and after each evaluation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mpi4py import MPI
from torch import nn

from hpcai.comm.grid import Group

SUMMED_AT_ONCE = 2**17  # elements of a checksum


def checksums(module: nn.Module, optimiser: torch.optim.Optimizer | None = None) -> torch.Tensor:
    """Checksums over the bits of each parameter, statistic and state tensor: int64, on the device.

    Any single changed bit changes its checksum. Parameters and statistics come first.
    """
    states = optimiser.state.values() if optimiser else ()
    kept = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    values = [*module.parameters(), *module.buffers(), *kept]
    found = torch.zeros(len(values), dtype=torch.int64, device=values[0].device)
    for total, value in zip(found, values, strict=True):
        _add_bits(total, torch.atleast_1d(value.detach()))
    return found


def _add_bits(total: torch.Tensor, tensor: torch.Tensor) -> None:
    """Add the bits of a tensor as integers, in parts: on a CPU torch copies what it sums as int64."""
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    rows = max(1, SUMMED_AT_ONCE * len(tensor) // max(1, tensor.numel()))
    for part in tensor.view(integers).split(rows):
        total += part.sum(dtype=torch.int64)


def checksum_of_all(last: torch.Tensor, group: Group) -> str:
    """16 digits over the checksums of all models' tensors: two trainings with the same weights, bit for bit, agree.

    Of each model the first replica counts. The same on every active rank; collective over these.
    """
    weighted = _weighted(last)
    place = group.coordinates.group * group.degree + group.coordinates.member
    total = group.active.allreduce(weighted * (2 * place + 1) * (group.place.replica == 0))
    return f"{int(total) % 2**64:016x}"


def repeated_models(last: torch.Tensor, group: Group) -> int | None:
    """Models whose checksums are those of the next model, of which the last one's is the first; None of one model.

    The same on every active rank; collective over these.
    """
    models = group.across
    if models.size == 1:
        return None
    own = _weighted(last)
    of_next = models.sendrecv(own, (models.rank - 1) % models.size, source=(models.rank + 1) % models.size)
    whole = group.model.allreduce(int(of_next == own), MPI.MIN)
    return int(group.active.allreduce(whole * group.leader))


def _weighted(last: torch.Tensor) -> int:
    """A sum in which each tensor's checksum has a factor of its own."""
    return sum(int(value) * (2 * number + 1) for number, value in enumerate(last.tolist()))


class JudgedWeights:
    """Compares the weights and statistics of whatever is evaluated with those that the training left."""

    def __init__(self, module: nn.Module) -> None:
        self.last = checksums(module)
        self._count = len(self.last)
        self.others = 0  # evaluations of other weights, or of none

    def record(self, found: torch.Tensor) -> None:
        """`found`: the checksums of the training's module, after its last step."""
        self.last = found[: self._count]

    @contextmanager
    def judging(self, evaluated: nn.Module) -> Iterator[list[torch.Tensor]]:
        """An evaluation of a module: checksums of its weights when it is called first, and afterwards."""
        seen: list[torch.Tensor] = []

        def look(module: nn.Module, inputs: Any) -> None:
            if not seen:
                seen.append(checksums(module))

        hook = evaluated.register_forward_pre_hook(look)
        try:
            yield seen
        finally:
            hook.remove()
        seen.append(checksums(evaluated))

    def judge(self, seen: list[torch.Tensor], batches: int) -> None:
        """Count a complete evaluation if it was of other weights, or never called the module for its batches."""
        called = len(seen) > 1 or not batches
        self.others += not called or not all(torch.equal(each, self.last) for each in seen)
