"""Cached launches for tensors at given addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .launch import Launch, ready

if TYPE_CHECKING:
    import torch

WORKSPACES = 64  # workspace addresses with cached launches


class LaunchPlan:
    """Launches of a product of tensors at given addresses, resolved for each stream and workspace."""

    def __init__(self, device: torch.device, nbytes: int, launches: Callable[[int], list[Launch]]) -> None:
        self._device, self._nbytes, self._launches = device, nbytes, launches
        self._runs: dict[tuple[int, int], list[Callable[[], None]]] = {}

    def workspace(self) -> torch.Tensor | None:
        """Memory for one call; torch reuses it only after the call is done."""
        import torch

        return torch.empty(self._nbytes, dtype=torch.uint8, device=self._device) if self._nbytes else None

    def __call__(self, workspace: torch.Tensor | None) -> None:
        """Enqueue the launches on the current stream."""
        import torch

        address = 0 if workspace is None else workspace.data_ptr()
        key = torch.cuda.current_stream(self._device).cuda_stream, address
        runs = self._runs.get(key) or self._resolved(key)
        with torch.cuda.device(self._device):
            for run in runs:
                run()

    def _resolved(self, key: tuple[int, int]) -> list[Callable[[], None]]:
        if len(self._runs) >= WORKSPACES:
            self._runs.clear()
        self._runs[key] = [ready(launch, self._device) for launch in self._launches(key[1])]
        return self._runs[key]
