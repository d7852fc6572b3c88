"""Replay of one optimiser step by a second, simpler path.

The module is called without the group's wrapper, compilation or graphs, by the vendor's kernels, with copies of
parameters and statistics; shards are exchanged by sums of whole tensors in float64, and micro-batches pass through the
stages one after the other. Plain autograd gives the gradients, and the group averages them by MPI in float64.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from torch import nn
from torch.func import functional_call

from hpcai.train.error_feedback import AFTER, BEFORE
from hpcai.train.execution import Execution
from hpcai.train.objective import Objective
from hpcai.train.providers import vendor_kernels
from hpcai.train.sent_gradients import CarriedErrors, overflows, sent_error
from hpcai.train.state import TrainingState
from hpcai.train.step_tensors import State, Tensor
from hpcai.update_rules.rule import UpdateRule, Vector

SKIPPED = "skipped_steps"  # one of the loss scaler's tensors
SUMMED_AT_ONCE = 2**17  # elements of a checksum


class StepSnapshot:
    """Copies of parameters and optimiser state before and after a step, in device memory allocated before the clock.

    Twice the parameters and the optimiser's state, and once the statistics.
    """

    def __init__(self, state: TrainingState, execution: Execution, rule: UpdateRule) -> None:
        self._state, self._execution, self._wire = state, execution, execution.communication.wire
        self._rule = rule
        self._live: list[torch.Tensor] = list(state.module.parameters())
        self._statistics = {name: buffer.clone() for name, buffer in state.module.named_buffers()}
        self._before, self._after = ([torch.zeros_like(p, requires_grad=False) for p in self._live] for _ in range(2))
        self._kept, self._kept_after = ({name: self._empty() for name in rule.state} for _ in range(2))
        scales = state.scaler.tensors() if state.scaler else {}
        self._scales, self._scales_after = ({k: v.clone() for k, v in scales.items()} for _ in range(2))

    def _empty(self) -> list[torch.Tensor]:
        """Zeros of the parameters' shapes, in the type that the optimiser keeps its state in."""
        same = [self._rule.state_element(p.element_size()) == p.element_size() for p in self._live]
        kinds = [p.dtype if alike else torch.float32 for p, alike in zip(self._live, same, strict=True)]
        return [
            torch.zeros_like(p, dtype=kind, requires_grad=False) for p, kind in zip(self._live, kinds, strict=True)
        ]

    @torch.no_grad()
    def before(self) -> None:
        """Copy parameters and optimiser state before the step, without synchronising."""
        torch._foreach_copy_(self._before, self._live)
        self._keep_state(self._kept)
        self._keep_scales(self._scales)
        if self._state.feedback:
            self._state.feedback.keep(BEFORE)

    @torch.no_grad()
    def after(self) -> None:
        """Copy parameters and optimiser state after the step."""
        torch._foreach_copy_(self._after, self._live)
        self._keep_state(self._kept_after)
        self._keep_scales(self._scales_after)
        if self._state.feedback:
            self._state.feedback.keep(AFTER)

    def _keep_scales(self, copies: dict[str, torch.Tensor]) -> None:
        for name, value in self._state.scaler.tensors().items() if self._state.scaler else ():
            copies[name].copy_(value)

    def _keep_state(self, copies: dict[str, list[torch.Tensor]]) -> None:
        states = self._state.optimiser.state
        for name, tensors in copies.items():
            kept = [states.get(parameter, {}).get(name) for parameter in self._live]
            if any(tensor is None for tensor in kept):  # before the very first step
                torch._foreach_zero_(tensors)
            else:
                torch._foreach_copy_(tensors, kept)

    def gradients(self, objective: Objective, x: torch.Tensor, y: torch.Tensor, step: int) -> list[torch.Tensor]:
        """Gradients of this rank's batch at the parameters before the step, times the loss scale if any."""
        before = [value.detach().requires_grad_() for value in self._before]
        names = (name for name, _ in self._state.module.named_parameters())
        values = {**dict(zip(names, before, strict=True)), **self._statistics}
        module: Any = self._state.module
        with vendor_kernels(module), module.exchanges.replaying():
            network = partial(_called_with, module, values)
            self._execution.alone(network, objective, x, y, step, self._scales.get("scale"))
        return [value.grad for value in before if value.grad is not None]

    @property
    def skipped(self) -> bool | None:
        """Whether the step was skipped after overflow; None without loss scaling."""
        return bool(self._scales_after[SKIPPED] > self._scales[SKIPPED]) if self._scales else None

    @property
    def skipped_before(self) -> int:
        """Number of earlier steps skipped after overflow."""
        return int(self._scales[SKIPPED]) if self._scales else 0

    def tensors(self, gradients: list[torch.Tensor], comm: MPI.Comm) -> Iterator[Tensor]:
        """Yield the step tensor by tensor, with this rank's gradients and their mean over the group. Collective."""
        scale = float(self._scales["scale"]) if self._scales else 1.0
        carried = CarriedErrors(self._state.feedback, comm, scale, gradients)
        for index, (name, parameter) in enumerate(self._state.module.named_parameters()):
            scaled = _host(gradients[index])
            local_gradient = scaled / scale
            mean, norms = (
                np.empty_like(local_gradient),
                np.array([local_gradient @ local_gradient, np.sqrt(local_gradient @ local_gradient)]),
            )
            comm.Allreduce(local_gradient, mean)
            comm.Allreduce(norms.copy(), norms)
            sent = carried.of(name)
            yield Tensor(
                name=name,
                kind=torch.finfo(parameter.dtype),
                decays=self._rule.decays(parameter.ndim),
                before=_host(self._before[index]),
                after=_host(self._after[index]),
                state={name: self._state_tensor(name, index) for name in self._rule.state},
                local_gradient=local_gradient,
                mean=mean / comm.size + (sent.added - sent.left if sent else 0),
                spread=float(np.sqrt(norms[0])) / comm.size,
                size=float(norms[1]) / comm.size,
                sent_error=sent_error(self._wire, float(norms[1]) / comm.size, len(mean), scale, comm.size),
                overflow=overflows(self._wire, scaled, mean * (scale / comm.size), comm),
                carried=sent,
                divided=name.rpartition(".")[0] not in getattr(self._state.module, "replicated", ()),
            )

    def _state_tensor(self, name: str, index: int) -> State:
        before, after = self._kept[name][index], self._kept_after[name][index]
        return State(torch.finfo(before.dtype), _host(before), _host(after))


def _called_with(module: nn.Module, values: dict[str, torch.Tensor], *inputs: Any) -> Any:
    return functional_call(module, values, inputs)


def checksums(module: nn.Module, optimiser: torch.optim.Optimizer) -> torch.Tensor:
    """Checksums over the bits of each parameter, statistic and state tensor: int64, on the device.

    Any single changed bit changes its checksum.
    """
    kept = [value for state in optimiser.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
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


def _host(tensor: torch.Tensor) -> Vector:
    flat: Vector = tensor.detach().double().flatten().cpu().numpy()
    return flat
