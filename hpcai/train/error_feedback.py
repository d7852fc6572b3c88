"""Rounding errors of sent gradients that this rank adds to the next step's: a part of the training state.

They are kept bucket by bucket, as gradients are sent, and named by parameter: torch rearranges the buckets after the
first step.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import nn

CURRENT, BEFORE, AFTER = range(3)


class Bucket(Protocol):
    """Gradients that are summed at once, as torch's GradBucket."""

    def index(self) -> int: ...

    def buffer(self) -> torch.Tensor: ...

    def parameters(self) -> Sequence[torch.Tensor]: ...


class ErrorFeedback:
    """The errors of one training on one rank, in fp32, with copies of before and after a replayed step."""

    def __init__(self, module: nn.Module, padding: int) -> None:
        """`padding`: elements by which a vector may be longer than its bucket."""
        self._names: dict[torch.Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
        self._padding = padding
        self._buckets: dict[int, tuple[list[str], torch.Tensor]] = {}  # rows: now, before and after a replayed step
        self._of: dict[str, torch.Tensor] = {}  # by parameter: the rows, each of its shape
        self._restored: dict[str, torch.Tensor] = {}  # of parameters that are in no bucket yet

    def of(self, bucket: Bucket, device: torch.device) -> torch.Tensor:
        """The errors of a bucket's gradients, and zeros at the end."""
        names = [self._names[parameter] for parameter in bucket.parameters()]
        known, rows = self._buckets.get(bucket.index(), ([], None))
        if rows is None or known != names:
            rows = self._arranged(bucket, names, device)
            self._buckets[bucket.index()] = names, rows
        return rows[CURRENT]

    def keep(self, copy: int) -> None:
        """Copy all errors, without synchronising."""
        for _, rows in self._buckets.values():
            rows[copy].copy_(rows[CURRENT])

    def copies(self, copy: int) -> list[torch.Tensor]:
        """The copies of all errors."""
        return [rows[copy] for _, rows in self._buckets.values()]

    def kept(self, name: str, copy: int) -> torch.Tensor | None:
        """The copy of a parameter's errors; None before its first step."""
        return self._of[name][copy] if name in self._of else None

    def tensors(self) -> dict[str, torch.Tensor]:
        """The errors by parameter, for a snapshot."""
        return {**self._restored, **{name: rows[CURRENT] for name, rows in self._of.items()}}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go back to a snapshot; parameters that it lacks have had no step."""
        for name, rows in self._of.items():
            if name in tensors:
                rows[CURRENT].copy_(tensors[name])
            else:
                rows[CURRENT].zero_()
        self._restored = {name: value.clone() for name, value in tensors.items() if name not in self._of}

    def _arranged(self, bucket: Bucket, names: list[str], device: torch.device) -> torch.Tensor:
        """A bucket's errors, from where its parameters had them before."""
        count, begin = bucket.buffer().numel() + self._padding, 0
        made = torch.zeros(3, count, device=device)
        for name, parameter in zip(names, bucket.parameters(), strict=True):
            # a bucket has its parameters' memory order, which may be channels last
            rows = made.as_strided((3, *parameter.shape), (count, *parameter.stride()), begin)
            if name in self._restored:
                rows[CURRENT].copy_(self._restored.pop(name))
            elif name in self._of:
                rows.copy_(self._of[name])
            self._of[name] = rows
            begin += parameter.numel()
        return made
