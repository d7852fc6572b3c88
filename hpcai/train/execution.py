"""Execution of a network in training: layer by layer, compiled by torch.compile, or as CUDA graphs.

Compilation happens before the clock starts, for every shape of the timed region.
"""

import logging
import os
from collections.abc import Callable
from typing import Any, cast

import torch
from mpi4py import MPI
from torch import Tensor, nn

from hpcai.clock import now, synchronise
from hpcai.comm.grid import Group
from hpcai.models.operation_counter import Executed
from hpcai.record.training import ExecutedBy
from hpcai.record.training import Execution as ExecutionRecord
from hpcai.train.communication import Communication
from hpcai.train.data_parallel import replicate
from hpcai.train.objective import Objective
from hpcai.train.state import TrainingState

# float[N, C, H, W] to logits float[N, classes]; of a detector, with boxes and random numbers, to its losses
Network = Callable[..., Tensor]
Compiler = Callable[[torch.fx.GraphModule, list[Tensor]], Any]
TRIALS = 3  # timings of each execution compared, after one discarded; the fastest counts


class Execution:
    """Executes the network layer by layer.

    `replica` is the callable that trains, `eval_module` the module for evaluation, which is switched to evaluation mode
    for that time, and `network` one that evaluates batches of other sizes as well. `layer_by_layer` also trains,
    whatever `replica` is. `executed` counts the operations that training executes.
    """

    name: ExecutedBy = "layer by layer"

    def __init__(self, module: nn.Module, replica: nn.Module, communication: Communication) -> None:
        self.replica: Network = self._watched
        self.layer_by_layer: Network = replica
        self.eval_module = self.network = module
        self.communication = communication
        self.executed = Executed(module, getattr(module, "uncounted", ()))
        self.compile_seconds = 0.0  # of compilation in the warm-up
        self.graphs = 0  # compiled or captured so far
        self.settled_graphs = 0  # compiled or captured before the clock started
        self.trials: dict[ExecutedBy, float] = {}  # seconds of the warm-up's steps by each execution compared

    def settle(self, train: Callable[[], None], evaluate: Callable[[], None]) -> int:
        """Prepare for the shapes of `train` and `evaluate`, callables that train and evaluate on batches of each shape.

        Returns how often `train` was called.
        """
        train()
        evaluate()
        return 1

    def step(self, objective: Objective, state: TrainingState, x: Tensor, y: Tensor, number: int) -> Tensor:
        """Gradients of a batch, averaged over the replicas; its loss. `number`: of the step, from 0."""
        loss = objective(self.replica, x, y, number)
        state.backward(loss)
        self.communication.end_backward()
        self.executed.end_backward()
        return loss.detach()

    def alone(
        self,
        network: Network,
        objective: Objective,
        x: Tensor,
        y: Tensor,
        number: int,
        scale: Tensor | None = None,
        backward: bool = True,
    ) -> Tensor:
        """Loss of a batch by another network, this one with other weights or kernels; outside the clock.

        Adds to the gradients of its parameters, times `scale`, unless it is without a backward pass.
        """
        loss = objective(network, x, y, number)
        if backward:
            (loss if scale is None else loss * scale).backward()
        return loss.detach()

    def measured(self, comm: MPI.Comm) -> ExecutionRecord:
        """Record of the execution, the same on all ranks of `comm`: the largest value of any rank. Collective."""
        late = self.graphs - self.settled_graphs
        return ExecutionRecord(
            by=self.name,
            graphs=comm.allreduce(self.settled_graphs, MPI.MAX),
            late_graphs=comm.allreduce(late, MPI.MAX),
            compile_seconds=comm.allreduce(self.compile_seconds, MPI.MAX),
            trials={str(name): seconds for name, seconds in self.trials.items()},
            buckets=comm.allreduce(self.communication.buckets, MPI.MAX),
        )

    def _watched(self, images: Tensor, *others: Any) -> Tensor:
        """Execute layer by layer; the operations of a shape not seen before are counted first."""
        if self.executed.knows(images):
            output = self.layer_by_layer(images, *others)
        else:
            output = self.executed.learn(self.layer_by_layer, images, *others)
        self.executed.add(images)
        return output

    def _use(self, network: Network) -> None:
        """Train by a network whose layers cannot be hooked from now on."""

        def counted(images: Tensor, *others: Any) -> Tensor:
            output = network(images, *others)
            self.executed.add(images)
            return output

        self.replica = counted


class Compiled(Execution):
    """Executes the network compiled by torch.compile, once for each shape.

    The replica of a group is compiled as a whole: torch splits it at the ends of its buckets, so that they are still
    sent during the backward pass.
    """

    name: ExecutedBy = "torch.compile"

    def __init__(
        self, module: nn.Module, replica: nn.Module, communication: Communication, compiler: Compiler | None = None
    ) -> None:
        super().__init__(module, replica, communication)
        torch._logging.set_logs(dynamo=logging.ERROR)  # silences warnings about graph breaks
        # forgets what earlier tests compiled: torch limits the number of compilations of a function
        torch.compiler.reset()
        self._compiler = compiler or _inductor()
        self._replica = self._compiled(replica)
        self.eval_module = self._compiled(module)

    def settle(self, train: Callable[[], None], evaluate: Callable[[], None]) -> int:
        """Compile for the shapes of `train` and `evaluate`."""
        train()  # layer by layer: counts the operations of each shape
        begin = now()
        self._use(self._replica)
        train()
        evaluate()
        self.compile_seconds, self.settled_graphs = now() - begin, self.graphs
        return 2

    def _compiled(self, network: nn.Module) -> nn.Module:
        compiled: Any = torch.compile(network, dynamic=False, backend=self._compile)
        return cast(nn.Module, compiled)

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        self.graphs += 1
        return self._compiler(graph, inputs)


def _inductor() -> Compiler:
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    if "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
        config.compile_threads = 1  # otherwise each rank starts as many processes as the node has processors
    compiler: Compiler = compile_fx
    return compiler


class Graphed(Execution):
    """Executes full batches as CUDA graphs, one of the forward and one of the backward pass, if that is faster.

    A graph is launched as a whole, which pays off where kernels are shorter than their launches. Other batches and
    evaluation are executed layer by layer. `slowest` returns the largest value of the ranks, so that all decide alike.
    """

    name: ExecutedBy = "CUDA graphs"

    def __init__(
        self,
        module: nn.Module,
        communication: Communication,
        device: torch.device,
        slowest: Callable[[float], float],
    ) -> None:
        super().__init__(module, module, communication)
        self._device = device
        self._slowest = slowest

    def settle(self, train: Callable[[], None], evaluate: Callable[[], None]) -> int:
        """Capture the shape of the first batch of `train`, and keep the faster execution."""
        first: list[Tensor] = []
        self.replica = lambda images: self._watched(_kept(first, images))
        train()
        evaluate()
        begin = now()
        captured = _captured(self.eval_module, first[0])
        synchronise(self._device)
        self.compile_seconds = now() - begin
        self.graphs = self.settled_graphs = 2  # a forward and a backward pass
        executions = {Execution.name: self.layer_by_layer, Graphed.name: captured}
        for _ in range(1 + TRIALS):
            for name, network in executions.items():
                self._use(network)
                self._try(name, train)
        self.name = min(self.trials, key=lambda name: self.trials[name])
        self._use(executions[self.name])
        return 1 + len(executions) * (1 + TRIALS)

    def _try(self, name: ExecutedBy, train: Callable[[], None]) -> None:
        synchronise(self._device)
        begin = now()
        train()
        synchronise(self._device)
        seconds = self._slowest(now() - begin)
        self.trials[name] = min(seconds, self.trials.get(name, seconds))


def build_execution(
    how: str, module: nn.Module, group: Group, device: torch.device, communication: Communication
) -> Execution:
    """The execution of a group's training, by the KEY COMPILE; the same on all active ranks."""
    replica = replicate(module, group, device, communication)
    match how:
        case "torch":
            return Compiled(module, replica, communication)
        case "graphs":
            return Graphed(module, communication, device, lambda seconds: group.active.allreduce(seconds, MPI.MAX))
    return Execution(module, replica, communication)


def _kept(first: list[Tensor], images: Tensor) -> Tensor:
    """The images; a copy is kept if they are the first."""
    if not first:
        first.append(images.clone())
    return images


class _NetworkModule(nn.Module):
    """Wrapper module whose `forward` can be replaced by a CUDA graph while the network's own remains."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.network(images)
        return logits


def _captured(network: nn.Module, example: Tensor) -> Network:
    """The network in training mode: batches of the example's shape as CUDA graphs, others layer by layer."""
    whole: Any = torch.cuda.make_graphed_callables(_NetworkModule(network), (example,))

    def either(images: Tensor) -> Tensor:
        logits: Tensor = whole(images) if images.shape == example.shape else network(images)
        return logits

    return either
