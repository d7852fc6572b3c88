"""What is to be launched for tensors that lie where they do, kept for the next time they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .launch import Launch, ready

if TYPE_CHECKING:
    import torch

WORKSPACES = 64  # places that a workspace had, of which launches are kept


class LaunchPlan:
    """A product of tensors that lie where they do: its kernels, for each stream and workspace it is called with."""

    def __init__(self, device: torch.device, nbytes: int, made: Callable[[int], list[Launch]]) -> None:
        self._device, self._nbytes, self._made = device, nbytes, made
        self._runs: dict[tuple[int, int], list[Callable[[], None]]] = {}

    def workspace(self) -> torch.Tensor | None:
        """Memory for a call, which torch gives to nobody else before the call is done."""
        import torch

        return torch.empty(self._nbytes, dtype=torch.uint8, device=self._device) if self._nbytes else None

    def __call__(self, workspace: torch.Tensor | None) -> None:
        """Put it on the current stream."""
        import torch

        address = 0 if workspace is None else workspace.data_ptr()
        key = torch.cuda.current_stream(self._device).cuda_stream, address
        runs = self._runs.get(key) or self._prepared(key)
        with torch.cuda.device(self._device):
            for run in runs:
                run()

    def _prepared(self, key: tuple[int, int]) -> list[Callable[[], None]]:
        if len(self._runs) >= WORKSPACES:
            self._runs.clear()
        self._runs[key] = [ready(launch, self._device) for launch in self._made(key[1])]
        return self._runs[key]
