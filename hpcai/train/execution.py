"""Execution of a network in training, layer by layer."""

from collections.abc import Callable
from typing import Any

from mpi4py import MPI
from torch import Tensor, nn

from hpcai.models.operation_counter import Executed
from hpcai.record.training import ExecutedBy
from hpcai.record.training import Execution as ExecutionRecord
from hpcai.train.communication import Communication
from hpcai.train.objective import Objective
from hpcai.train.state import TrainingState

# float[N, C, H, W] to logits float[N, classes]; of a detector, with boxes and random numbers, to its losses
Network = Callable[..., Tensor]


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
