"""Reading of a few elements of every gradient, weight and state tensor in each step, without waiting for the device."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from hpcai.kernels.fingerprint import ELEMENTS, TYPES, numba_cpu, vendor
from hpcai.kernels.fingerprint.numba_cpu import ADDRESS, COUNT, KIND

GRADIENT, WEIGHT, STATE = range(3)  # kinds of a tensor's elements; further state follows

Elements = np.ndarray[Any, np.dtype[np.float64]]
Numbers = np.ndarray[Any, np.dtype[Any]]


class Run(NamedTuple):
    """The elements that are read of a tensor: `length` from element `first` on, as they follow in memory."""

    first: int
    length: int


class Notes(NamedTuple):
    """What an epoch's steps left, on the host.

    fingerprints: uint64[steps, tensors] of the gradients. still: int64[tensors], how many steps left the elements of a
    weight as they were; step: int64[tensors], the last of these, from 0; elements: float64[kinds, tensors, ELEMENTS]
    after that step.
    """

    fingerprints: Numbers
    still: Numbers
    step: Numbers
    elements: Elements


class Reader(Protocol):
    """Reads elements in each step. One class per device type."""

    def begin(self, sources: Sequence[Sequence[torch.Tensor | None]]) -> None:
        """An epoch begins: the tensors of each kind but the gradients, None where one does not exist yet."""

    def read(self, step: int, gradients: Sequence[torch.Tensor], overflow: torch.Tensor | None) -> None:
        """Read the elements after the update of a step, from 0 in this epoch; a step with `overflow` 1 moves nothing.
        """

    def notes(self, steps: int) -> Notes:
        """What the steps of the epoch left; waits for the device."""


class HostReader:
    """Reads the memory of the host by a compiled function."""

    def __init__(self, parameters: Sequence[torch.Tensor], runs: Sequence[Run], kinds: int, steps: int) -> None:
        self._runs, tensors = runs, len(runs)
        self._tensors = np.zeros((kinds, 3, tensors), np.int64)
        self._tensors[:, COUNT] = [run.length for run in runs]
        self._tensors[GRADIENT, KIND] = [_code(each.dtype) for each in parameters]
        self._offsets = np.array([run.first * each.element_size() for run, each in zip(runs, parameters, strict=True)])
        self._smallest = np.array([torch.finfo(each.dtype).tiny for each in parameters])
        self._now, self._kept = np.zeros((2, kinds, tensors, ELEMENTS))
        self._weights = np.zeros((tensors, ELEMENTS))
        self._fingerprints = np.zeros((steps, tensors), np.uint64)
        self._marks = np.zeros((2, tensors), np.int64)

    def begin(self, sources: Sequence[Sequence[torch.Tensor | None]]) -> None:
        self._tensors[GRADIENT, ADDRESS] = 0
        for kind, tensors in enumerate(sources, WEIGHT):
            self._tensors[kind, ADDRESS] = [_address(*each) for each in zip(tensors, self._runs, strict=True)]
            self._tensors[kind, KIND] = [0 if tensor is None else _code(tensor.dtype) for tensor in tensors]
        self._marks[:] = 0
        numba_cpu.gather(self._tensors, self._now)
        self._weights[:] = self._now[WEIGHT]

    def read(self, step: int, gradients: Sequence[torch.Tensor], overflow: torch.Tensor | None) -> None:
        self._tensors[GRADIENT, ADDRESS] = [gradient.data_ptr() for gradient in gradients]
        self._tensors[GRADIENT, ADDRESS] += self._offsets
        numba_cpu.note(
            *(self._tensors, self._now, self._kept, self._weights, self._smallest, self._marks),
            self._fingerprints[step],
            step,
            0 if overflow is None else overflow.data_ptr(),
        )

    def notes(self, steps: int) -> Notes:
        still, last = self._marks
        return Notes(self._fingerprints[:steps], still, last, self._kept)


def _address(tensor: torch.Tensor | None, run: Run) -> int:
    return 0 if tensor is None else tensor.data_ptr() + run.first * tensor.element_size()


class DeviceReader:
    """Reads a GPU's memory by torch's operators; nothing waits for it."""

    def __init__(
        self, parameters: Sequence[torch.Tensor], runs: Sequence[Run], device: torch.device, kinds: int, steps: int
    ) -> None:
        self._runs, tensors = runs, len(runs)
        self._read: list[tuple[torch.Tensor, torch.Tensor]] = []  # elements of weights and state, and where they go
        tiny = [torch.finfo(each.dtype).tiny for each in parameters]
        self._smallest = torch.tensor(tiny, dtype=torch.float64, device=device)
        self._now = torch.zeros(kinds, tensors, ELEMENTS, dtype=torch.float64, device=device)
        self._kept, self._weights = torch.zeros_like(self._now), torch.zeros_like(self._now[WEIGHT])
        self._parts = [[row[: run.length] for row, run in zip(each, runs, strict=True)] for each in self._now]
        self._fingerprints = torch.zeros(steps, tensors, dtype=torch.int64, device=device)
        self._still, self._step = torch.zeros(2, tensors, dtype=torch.int64, device=device)
        self._factors = vendor.factors(device)

    def begin(self, sources: Sequence[Sequence[torch.Tensor | None]]) -> None:
        self._still.zero_()
        self._read = [
            (in_memory(tensor, run), part)
            for tensors, parts in zip(sources, self._parts[WEIGHT:], strict=True)
            for tensor, run, part in zip(tensors, self._runs, parts, strict=True)
            if tensor is not None
        ]
        vendor.gather(*zip(*self._read, strict=True))
        self._weights.copy_(self._now[WEIGHT])

    def read(self, step: int, gradients: Sequence[torch.Tensor], overflow: torch.Tensor | None) -> None:
        own = [in_memory(gradient, run) for gradient, run in zip(gradients, self._runs, strict=True)]
        sources, parts = zip(*self._read, strict=True)
        vendor.gather([*own, *sources], [*self._parts[GRADIENT], *parts])
        vendor.fingerprints(self._now[GRADIENT], self._smallest, self._factors, self._fingerprints[step])
        still = (self._now[WEIGHT] == self._weights).all(dim=1)
        still = still if overflow is None else still & (overflow == 0)
        self._still += still
        self._step.masked_fill_(still, step)
        torch.where(still[None, :, None], self._now, self._kept, out=self._kept)
        self._weights.copy_(self._now[WEIGHT])

    def notes(self, steps: int) -> Notes:
        prints = self._fingerprints[:steps].cpu().numpy().view(np.uint64)
        return Notes(prints, *(part.cpu().numpy() for part in (self._still, self._step, self._kept)))


def reader(
    parameters: Sequence[torch.Tensor], runs: Sequence[Run], device: torch.device, kinds: int, steps: int
) -> Reader:
    """The reader of parameters on a device, of epochs of `steps` steps."""
    if device.type == "cpu":
        return HostReader(parameters, runs, kinds, steps)
    return DeviceReader(parameters, runs, device, kinds, steps)


def _code(kind: torch.dtype) -> int:
    return TYPES.index(str(kind).removeprefix("torch."))


def in_memory(tensor: torch.Tensor, run: Run) -> torch.Tensor:
    """The elements of a run, as they follow in memory."""
    return tensor.detach().as_strided((run.length,), (1,), tensor.storage_offset() + run.first)
