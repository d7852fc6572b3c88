"""Replay of one optimiser step by a second, simpler path.

The module is called without the group's wrapper, compilation or graphs, by the vendor's kernels, with copies of
parameters and statistics; shards are exchanged by sums of whole tensors in float64, and micro-batches pass through the
stages one after the other. Plain autograd gives the gradients, and the group averages them by MPI in float64.
"""

from collections.abc import Iterator
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
import torch
from mpi4py import MPI
from torch import nn
from torch.func import functional_call

from hpcai.kernels.arithmetic import UNIT_ROUNDOFF_FP32 as SINGLE
from hpcai.train.error_feedback import AFTER, BEFORE
from hpcai.train.execution import Execution
from hpcai.train.objective import Objective
from hpcai.train.providers import vendor_kernels
from hpcai.train.sent_gradients import CarriedErrors, overflows, sent_error
from hpcai.train.state import TrainingState
from hpcai.train.step_tensors import State, Tensor
from hpcai.train.tied_step import counted_here, layer_of, of_all_copies, tied_first, tied_of
from hpcai.train.update_check import ratio
from hpcai.update_rules.rule import UpdateRule, Vector

STATISTICS_SHARE = 2.0**-9  # of running statistics: what rounding changes in a batch's, where they hardly change
SKIPPED = "skipped_steps"  # one of the loss scaler's tensors


class StepSnapshot:
    """Copies of parameters and optimiser state before and after a step, in device memory allocated before the clock.

    Twice the parameters, the statistics and the optimiser's state.
    """

    def __init__(self, state: TrainingState, execution: Execution, rule: UpdateRule) -> None:
        self._state, self._execution, self._wire = state, execution, execution.communication.wire
        self._rule = rule
        self._live: list[torch.Tensor] = list(state.module.parameters())
        self._statistics, self._statistics_after = (
            {name: buffer.clone() for name, buffer in state.module.named_buffers()} for _ in range(2)
        )
        self._replayed = self._statistics  # what the replay leaves
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
        self._keep_statistics(self._statistics)
        self._keep_state(self._kept)
        self._keep_scales(self._scales)
        if self._state.feedback:
            self._state.feedback.keep(BEFORE)

    @torch.no_grad()
    def after(self) -> None:
        """Copy parameters and optimiser state after the step."""
        torch._foreach_copy_(self._after, self._live)
        self._keep_statistics(self._statistics_after)
        self._keep_state(self._kept_after)
        self._keep_scales(self._scales_after)
        if self._state.feedback:
            self._state.feedback.keep(AFTER)

    @property
    def nbytes(self) -> int:
        """Bytes of all copies."""
        own = [self._before, *self._kept.values(), list(self._statistics.values())]
        return 2 * sum(tensor.nbytes for tensors in own for tensor in tensors)

    def _keep_statistics(self, copies: dict[str, torch.Tensor]) -> None:
        for name, buffer in self._state.module.named_buffers():
            copies[name].copy_(buffer)

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
        self._replayed = {name: value.clone() for name, value in self._statistics.items()}  # which the replay updates
        values = {**dict(zip(names, before, strict=True)), **self._replayed}
        module: Any = self._state.module
        with vendor_kernels(module), module.exchanges.replaying():
            network = partial(_called_with, module, values)
            self._execution.alone(network, objective, x, y, step, self._scales.get("scale"))
        return [value.grad for value in before if value.grad is not None]

    def statistics_deviation(self, rounding_allowance: float) -> tuple[float, str]:
        """Largest deviation of the running statistics after the step from those that the replay leaves / bound.

        Call it after `gradients`. The bound is the allowance of the change, and of a 512th of the statistics.
        """
        worst = (0.0, "")
        for name, replayed in self._replayed.items():
            copies = self._statistics[name], self._statistics_after[name], replayed
            before, after, exact = map(_host, copies)
            size = float(np.linalg.norm(after))
            allowed = rounding_allowance * (float(np.linalg.norm(after - before)) + size * STATISTICS_SHARE)
            with np.errstate(invalid="ignore"):
                wrong = float(np.linalg.norm(after - exact))
            if isfinite(wrong):  # else the check of the loss finds it
                worst = max(worst, (ratio(wrong, allowed + 2 * SINGLE * size), name))
        return worst

    @property
    def skipped(self) -> bool | None:
        """Whether the step was skipped after overflow; None without loss scaling."""
        return bool(self._scales_after[SKIPPED] > self._scales[SKIPPED]) if self._scales else None

    @property
    def skipped_before(self) -> int:
        """Number of earlier steps skipped after overflow."""
        return int(self._scales[SKIPPED]) if self._scales else 0

    def tensors(
        self, gradients: list[torch.Tensor], comm: MPI.Comm, stages: MPI.Comm = MPI.COMM_SELF
    ) -> Iterator[Tensor]:
        """Yield the step tensor by tensor, with this rank's gradients and their mean over the replicas.

        Gradients of tied weights are those of all their copies. Collective over the replicas and the stages.
        """
        module = self._state.module
        scale = float(self._scales["scale"]) if self._scales else 1.0
        carried = CarriedErrors(self._state.feedback, comm, scale, gradients)
        for index, name, parameter in tied_first(module):
            scaled = _host(gradients[index])
            local_gradient = scaled / scale
            mean, norms = (
                np.empty_like(local_gradient),
                np.array([local_gradient @ local_gradient, np.sqrt(local_gradient @ local_gradient)]),
            )
            comm.Allreduce(local_gradient, mean)
            comm.Allreduce(norms.copy(), norms)
            sent = carried.of(name)
            own = Tensor(
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
                divided=layer_of(name) not in getattr(module, "replicated", ()),
                counted=counted_here(module, name),
            )
            yield of_all_copies(own, tied_of(module).get(layer_of(name)), stages)

    def _state_tensor(self, name: str, index: int) -> State:
        before, after = self._kept[name][index], self._kept_after[name][index]
        return State(torch.finfo(before.dtype), _host(before), _host(after))


def _called_with(module: nn.Module, values: dict[str, torch.Tensor], *inputs: Any) -> Any:
    return functional_call(module, values, inputs)


def _host(tensor: torch.Tensor) -> Vector:
    flat: Vector = tensor.detach().double().flatten().cpu().numpy()
    return flat
